"""Hidden states to log-probabilities: the only place where that happens, temperature included.

The sampler and the trainer both call `token_logp`, so a sampled log-probability and a recomputed
one differ by rounding only. `logp[..., t]` is that of `tokens[..., t]` and comes from the state
after the token before it. Only slots that can hold an action are ever scored, and [.., V] is never
kept. What is large goes in parts that the backward pass computes again: a few positions at a time,
or, with a large vocabulary, a block of the vocabulary at a time (`_scores` chooses; docs/llm.md has
what either costs).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from grpo import masked
from grpo import types
from grpo.models import vocabulary

__all__ = ['Rows', 'token_logp', 'entropy', 'score', 'logps', 'logps_unshared', 'answers', 'values',
           'values_and_last', 'block_size']

_CHUNK = 2 ** 22  # logits alive at once, before the chunks start
_LARGE = 2 ** 14  # vocabulary that goes in blocks
_BLOCK = 2 ** 21, 256  # logits of a block of it, and its least tokens: the product needs some width


class Rows(NamedTuple):
  """The part of a rollout that scoring reads, each [P,G,S,L]."""
  tokens: jax.Array
  valid: jax.Array
  mask: jax.Array


def token_logp(logits, tokens, temperature):
  """log softmax(logits / temperature)[token], nats. Float32 [...] from [..., V] and int [...]."""
  scaled = logits.astype(jnp.float32) / temperature
  vocab = jax.lax.broadcasted_iota(jnp.int32, scaled.shape, scaled.ndim - 1)
  picked = jnp.sum(jnp.where(vocab == tokens[..., None], scaled, 0.0), axis=-1)
  return picked - jax.nn.logsumexp(scaled, axis=-1)


def entropy(logits, temperature):
  """Entropy of softmax(logits / temperature), nats: logsumexp(z) - sum softmax(z) z."""
  scaled = logits.astype(jnp.float32) / temperature
  weights = jax.nn.softmax(scaled, axis=-1)
  kept = masked.clean(scaled, weights > 0)
  return jax.nn.logsumexp(scaled, axis=-1) - jnp.sum(weights * kept, axis=-1)


def _before(first, hidden_PNWD, valid_PNW, layout):
  """State before each place that is scored, [P,N,K,D], from states after the tokens of the row.

  K are the action slots, then those of a summary. `first` is the state after the prompt, [P,1,D] or
  [P,N,D]. `hidden_PNWD` may stop at the last token that precedes such a place.
  """
  P, N, W, D = hidden_PNWD.shape
  first = jnp.broadcast_to(first[:, :, None], (P, N, 1, D))
  shifted = jnp.concatenate([first, hidden_PNWD], axis=2)[:, :, :layout.row]
  shifted = jnp.pad(shifted, ((0, 0), (0, 0), (0, layout.row - shifted.shape[2]), (0, 0)))
  shifted = _skip_note(shifted, valid_PNW[..., None], layout)
  return _scored(shifted, layout)


def _skip_note(x, valid, layout):
  """Entries 'before a token' [P,N,W,..]: a window without a copied note starts at its prompt."""
  if not layout.note:
    return x
  n = layout.note
  none = ~jnp.any(valid[:, :, :n], axis=2, keepdims=True)
  start = jnp.where(none, x[:, :, :1], x[:, :, n:n + 1])
  return jnp.concatenate([x[:, :, :n], start, x[:, :, n + 1:]], axis=2)


def _scored(x, layout):
  """The places of rows behind a prompt that are scored: [P,N,W,..] to [P,N,K,..]."""
  P, N, *rest = x.shape[:2] + x.shape[3:]
  turns = x[:, :, layout.note:layout.row - layout.note]
  turns = turns.reshape(P, N, layout.slots, layout.turn, *rest)[:, :, :, :layout.action]
  turns = turns.reshape(P, N, -1, *rest)
  if not layout.note:
    return turns
  return jnp.concatenate([turns, x[:, :, layout.row - layout.summary:]], axis=2)


def _place(x_PNK, mask_PGSL, layout):
  """Values of scored places back at their positions, 0 off the mask, [P,G,S,L]."""
  P, G, S, _ = mask_PGSL.shape
  count = layout.slots * layout.action
  x = x_PNK[..., :count].reshape(P, -1, layout.slots, layout.action)
  x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, layout.observation))).reshape(P, G, S, -1)
  if layout.note:
    x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (layout.note, 1)))  # a place for the word that asks
    x = jnp.concatenate([x, x_PNK[..., count:].reshape(P, G, S, -1)], axis=-1)
  x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (layout.prompt, 0)))
  return masked.clean(x, mask_PGSL)


def _in_chunks(function, hidden_PNTD, tokens_PNT, chunk):
  """function(hidden, tokens) in pieces of the T axis, computed again in the backward pass."""
  P, N, T, D = hidden_PNTD.shape
  if chunk >= T:
    return function(hidden_PNTD, tokens_PNT)
  count = -(-T // chunk)
  pad = count * chunk - T
  hidden = jnp.pad(hidden_PNTD, ((0, 0), (0, 0), (0, pad), (0, 0)))
  tokens = jnp.pad(tokens_PNT, ((0, 0), (0, 0), (0, pad)))
  hidden = jnp.moveaxis(hidden.reshape(P, N, count, chunk, D), 2, 0)
  tokens = jnp.moveaxis(tokens.reshape(P, N, count, chunk), 2, 0)
  out = jax.lax.map(lambda xs: jax.checkpoint(function)(*xs), (hidden, tokens))
  return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 2).reshape(P, N, -1)[..., :T], out)


def _prompts(rollout, layout):
  """The one copy of each prompt, [P, prompt]: window 0 of sample 0 always holds it."""
  return (rollout.tokens[:, 0, 0, :layout.prompt], rollout.valid[:, 0, 0, :layout.prompt])


def _check(rollout, layout):
  if rollout.tokens.shape[-1] != layout.length:
    raise ValueError(f'rollout windows have {rollout.tokens.shape[-1]} positions, the layout has '
                     f'{layout.length}')


def _shares(rollout, layout) -> bool:
  """Whether prompts are read once a group: not where that would save under an eighth of the tokens.

  Rows that hold their short prompts are one pass instead of two, which compiles and runs faster.
  """
  N = rollout.tokens.shape[1] * rollout.tokens.shape[2]
  return 8 * (N - 1) * layout.prompt > N * layout.length


def _read(policy, params, rollout, layout):
  """States before the scored places of a rollout, and the tokens that stand there."""
  tokens_PNL, valid_PNL = types.rows(rollout.tokens), types.rows(rollout.valid)
  tokens_PNW, valid_PNW = tokens_PNL[..., layout.prompt:], valid_PNL[..., layout.prompt:]
  after = 1 if layout.note else layout.observation + 1  # the last tokens precede nothing scored
  used = tokens_PNW.shape[-1] - after
  if not _shares(rollout, layout):
    last = layout.prompt + used
    hidden = policy.forward(params, None, tokens_PNL[..., :last], valid_PNL[..., :last])
    first, hidden = hidden[:, :, layout.prompt - 1], hidden[:, :, layout.prompt:]
    return _before(first, hidden, valid_PNW, layout), _scored(tokens_PNW, layout)
  prefix = policy.prefill(params, *_prompts(rollout, layout))
  if used:
    hidden = policy.forward(params, prefix, tokens_PNW[..., :used], valid_PNW[..., :used])
  else:
    hidden = jnp.zeros((*tokens_PNW.shape[:2], 0, prefix.last.shape[-1]), prefix.last.dtype)
  return (_before(prefix.last[:, None], hidden, valid_PNW, layout),
          _scored(tokens_PNW, layout))


def block_size(count: int) -> int:
  """Tokens of the vocabulary in a block, for `count` places that are scored at once."""
  return max(_BLOCK[0] // max(count, 1), _BLOCK[1])


def _scores(policy, params, before_PNKD, tokens_PNK, temperature, chunk, bonus):
  P, N, _ = tokens_PNK.shape
  if chunk is None and policy.head is not None and policy.vocab >= _LARGE:
    logp, bits = vocabulary.scores(before_PNKD, policy.head(params), tokens_PNK, temperature,
                                   block=block_size(tokens_PNK.size))
    return logp, bits if bonus else jax.lax.stop_gradient(bits)
  chunk = max(1, _CHUNK // (P * N * policy.vocab)) if chunk is None else chunk

  def function(hidden, tokens):
    logits = policy.logits(params, hidden)
    read = logits if bonus else jax.lax.stop_gradient(logits)
    return token_logp(logits, tokens, temperature), entropy(read, temperature)

  return _in_chunks(function, before_PNKD, tokens_PNK, chunk)


def score(policy, params, rollout, layout, temperature, *, chunk: int | None = None,
          bonus: bool = True):
  """Log-probability and entropy of every trained token under `params`.

  Args:
    policy: base.Policy.
    params: its parameters.
    rollout: anything with `tokens`, `valid`, `mask` of shape [P,G,S,L], such as types.Rollout.
    layout: types.Layout of the windows.
    temperature: that of the sampler; logits are divided by it. Scalar, may be traced.
    chunk: action slots of a row whose logits are alive at once; None chooses by size, and takes a
      large vocabulary in blocks instead.
    bonus: whether the entropy carries a gradient, which costs another pass over the logits.

  Returns:
    (logp_PGSL, entropy_PGSL), float32 nats, 0 off the mask.
  """
  _check(rollout, layout)
  before, tokens = _read(policy, params, rollout, layout)
  out = _scores(policy, params, before, tokens, temperature, chunk, bonus)
  return tuple(_place(x, rollout.mask, layout) for x in out)


def logps(policy, params, rollout, layout, temperature, *, chunk: int | None = None):
  """`score` without the entropy: logp_PGSL."""
  return score(policy, params, rollout, layout, temperature, chunk=chunk)[0]


def logps_unshared(policy, params, rollout, layout, temperature):
  """The same numbers as `logps` with the prompt read again for every row.

  The plain way, kept to show that sharing the prompt changes the cost and nothing else.
  """
  _check(rollout, layout)
  P, G, S, L = rollout.tokens.shape
  flat = lambda x: x.reshape(P * G * S, 1, 1, L)
  prompt = jnp.broadcast_to(rollout.tokens[:, :1, :1, :layout.prompt], (P, G, S, layout.prompt))
  valid = jnp.broadcast_to(rollout.valid[:, :1, :1, :layout.prompt], (P, G, S, layout.prompt))
  alone = Rows(*(flat(x) for x in (
      jnp.concatenate([prompt, rollout.tokens[..., layout.prompt:]], axis=-1),
      jnp.concatenate([valid, rollout.valid[..., layout.prompt:]], axis=-1), rollout.mask)))
  return logps(policy, params, alone, layout, temperature).reshape(P, G, S, L)


def answers(policy, params, rollout, layout, temperature, answer_P):
  """Log-probability that a given token would come next, at every trained token; f32 [P,G,S,L].

  One token `answer_P` for each prompt, in place of what was sampled. No pass of its own for each
  place: the states before the sampled tokens are those before the answer.
  """
  _check(rollout, layout)
  before, tokens = _read(policy, params, rollout, layout)
  target = jnp.broadcast_to(answer_P[:, None, None], tokens.shape)
  logp, _ = _scores(policy, params, before, target, temperature, None, False)
  return _place(logp, rollout.mask, layout)


def _states(critic, params, rollout, layout):
  """Value before each token of a row behind its prompt, and after the last: f32 [P,N,W + 1]."""
  _check(rollout, layout)
  tokens_PNL, valid_PNL = types.rows(rollout.tokens), types.rows(rollout.valid)
  valid_PNW = valid_PNL[..., layout.prompt:]
  if not _shares(rollout, layout):
    out = critic.states(params, None, None, tokens_PNL, valid_PNL)[..., layout.prompt:]
  else:
    out = critic.states(params, *_prompts(rollout, layout), tokens_PNL[..., layout.prompt:],
                        valid_PNW)
  return _skip_note(out, valid_PNW, layout)


def values(critic, params, rollout, layout):
  """Value before each trained token, f32 [P,G,S,L], 0 off the mask: V[t] does not see token t."""
  return _before_tokens(_states(critic, params, rollout, layout), rollout, layout)


def values_and_last(critic, params, rollout, layout):
  """`values`, and the value after the last real token of each episode, f32 [P,G].

  The second is the bootstrap of an episode that was cut. Both come from one forward pass.
  """
  P, G, S, _ = rollout.mask.shape
  states = _states(critic, params, rollout, layout)
  index = masked.last_index(types.rows(rollout.valid)[..., layout.prompt:]) + 1
  last_PGS = jnp.take_along_axis(states, index[..., None], axis=-1).reshape(P, G, S)
  final_PG = jnp.maximum(masked.last_index(rollout.mask.any(-1)), 0)
  last_PG = jnp.take_along_axis(last_PGS, final_PG[..., None], axis=-1)[..., 0]
  return _before_tokens(states, rollout, layout), last_PG


def _before_tokens(states_PNW, rollout, layout):
  """Values before the tokens of rows behind their prompts, at their positions."""
  x = states_PNW[..., :-1].reshape(*rollout.mask.shape[:3], -1)
  x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (layout.prompt, 0)))
  return masked.clean(x, rollout.mask)
