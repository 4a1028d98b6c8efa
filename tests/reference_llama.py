"""A decoder of the Llama family in NumPy and float64, written from the formulas of its parts."""

import numpy as np


def _norm(x, scale, eps):
  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * scale


def _softmax(x):
  x = np.exp(x - x.max(axis=-1, keepdims=True))
  return x / x.sum(axis=-1, keepdims=True)


def logits(model, tokens, valid):
  """Logits of every token, f64 [B,L,V]; those of padding mean nothing.

  Args:
    model: hf.Model of the Llama family with plain rotary angles and no biases, layers apart.
    tokens: int [B,L].
    valid: bool [B,L]; padding is not seen and takes no place.
  """
  shape = model.shape
  if shape.scaling or shape.bias or shape.local or shape.qk_norm or shape.sandwich:
    raise ValueError('written for the plain Llama family')
  wide = lambda x: np.asarray(x, np.float64)
  return np.stack([_row(shape, model.params, wide, t, v)
                   for t, v in zip(tokens, valid, strict=True)])


def _row(shape, params, wide, tokens, valid):
  L, width, pair = len(tokens), shape.head_dim, np.arange(shape.head_dim // 2)
  place = np.maximum(np.cumsum(valid) - 1, 0)
  angle = place[:, None] * shape.theta ** (-2 * pair / width)
  cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
  seen = np.tril(np.ones((L, L), bool)) & valid[None]
  seen[:, 0] |= ~seen.any(axis=1)  # padding sees something, so that it is no NaN

  def turned(x):  # [L, heads, width], halves as Hugging Face has them
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

  table = wide(params['embed']['embedding'])
  x = table[tokens]
  for i in range(shape.layers):
    layer = params['layers'][str(i)]
    a, m = layer['attention'], layer['mlp']
    h = _norm(x, wide(a['norm']['scale']), shape.norm_eps)
    heads = lambda name, n: (h @ wide(a[name]['kernel'])).reshape(L, n, width)
    queries = turned(heads('query', shape.heads))
    stored, values = turned(heads('key', shape.kv_heads)), heads('value', shape.kv_heads)
    repeat = shape.heads // shape.kv_heads
    stored, values = (np.repeat(y, repeat, axis=1) for y in (stored, values))
    score = np.einsum('lhd,jhd->hlj', queries, stored) / np.sqrt(width)
    weight = _softmax(np.where(seen, score, -np.inf))
    x = x + np.einsum('hlj,jhd->lhd', weight, values).reshape(L, -1) @ wide(a['output']['kernel'])
    h = _norm(x, wide(m['norm']['scale']), shape.norm_eps)
    gate = h @ wide(m['gate']['kernel'])
    gate = gate / (1 + np.exp(-gate))
    x = x + (gate * (h @ wide(m['up']['kernel']))) @ wide(m['down']['kernel'])
  x = _norm(x, wide(params['norm']['scale']), shape.norm_eps)
  return x @ (table.T if shape.tied else wide(params['head']['kernel']))
