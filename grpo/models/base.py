"""What a policy and a critic are: pure functions of a parameter pytree (nested dicts of arrays).

A prompt is read once per group. `prefix` is what the model remembers of it; windows of the same
prompt, in sampling as in training, attend to that one copy. The hidden vector at a position is the
state after that token; `logits` of it predict the next one.

Shapes: prompts [P, Lp]; rows behind a prompt [P, N, W], with N rows each.
"""

from collections.abc import Callable
import dataclasses

__all__ = ['Policy', 'Critic']


@dataclasses.dataclass(frozen=True)
class Policy:
  """Functions only; parameters are passed in.

  Attributes:
    init: (key) -> params.
    prefill: (params, tokens_PL, valid_PL) -> prefix. Pytree; its `last` field is hidden_PD, the
      state after the last prompt token.
    forward: (params, prefix, tokens_PNW, valid_PNW) -> hidden_PNWD. Training and scoring: causal
      attention inside the row, and to the prefix. Invalid tokens are invisible to all others.
      With a prefix of None, rows hold their own prompts.
    start: (params, prefix, rows, length, cache=None) -> cache. Empty room for `length` further
      positions of each of `rows` rows of every prompt, behind those of `cache` if one is given:
      a long row is read in blocks, and only the last of them is written to.
    extend: (params, prefix, cache, tokens_PNW, valid_PNW, index) -> (hidden_PNWD, cache). Reads W
      tokens at slots index ... index + W - 1 (index is a scalar, may be traced).
    logits: (params, hidden_...D) -> f32 [..., V].
    vocab: V.
    flops: (prompt_tokens, row_tokens, context) -> float. Forward FLOPs (a multiply-add is 2) of
      reading `row_tokens` tokens whose mean attention span is `context`, head excluded per token
      read but included per scored token; see the docstring of each model.
    head: (params) -> [V, D], where logits are the product of a hidden vector with these rows; None
      for a model of another kind.
  """
  init: Callable
  prefill: Callable
  forward: Callable
  start: Callable
  extend: Callable
  logits: Callable
  vocab: int
  flops: Callable
  head: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Critic:
  """A value function that reads what the policy reads.

  Attributes:
    init: (key) -> params, fresh.
    graft: (params, policy_params) -> params. Trunk taken from the policy, value head kept.
    states: (params, prompt_PL, valid_PL, tokens_PNW, valid_PNW) -> f32 [P, N, W + 1]. Entry w is
      the value of the state *before* token w, which it does not see; entry W that after the last.
      With a prompt of None, rows hold their own prompts and entry 0 is 0.
    flops: as in Policy.
  """
  init: Callable
  graft: Callable
  states: Callable
  flops: Callable
