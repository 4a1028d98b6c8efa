"""The pieces of work whose speed is measured: sizes, the task, and the least it must cost.

One step samples a group for each random prompt, rewards it by the share of one token, and does one
update on the whole batch. Weights are random, prompts have a fixed length, no token ends an action,
so every step of a case does the same amount of work.
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import types
from grpo.models import transformer
from grpo.tasks import base

__all__ = ['Work', 'CASES', 'task', 'layout', 'shape', 'flops', 'bytes_read']

REWARD_TOKEN = 7
FIRST_TOKEN = 8   # prompts are drawn from the ids from here on


@dataclasses.dataclass(frozen=True)
class Work:
  """Sizes of one case. An episode has `turns` actions of `completion` tokens each.

  After each action but the last the policy reads `observation` tokens. `stops` token ids (0 for
  none) end an action early. The episode is played in `windows` windows, of which later ones start
  with a copy of one turn and of a summary of `summary` tokens. `ref` adds a KL term to a frozen
  reference. `micro` parts of a batch are trained one after the other, which changes no result.
  `seeds` runs share one program. `lag` batches wait in a delay line whose law is `delay`.
  """
  layers: int = 4
  hidden: int = 128
  heads: int = 4
  kv_heads: int = 2
  head_dim: int = 32
  mlp: int = 512
  vocab: int = 512
  prompts: int = 16
  group: int = 8
  prompt: int = 32
  completion: int = 64
  turns: int = 1
  observation: int = 0
  stops: int = 0
  windows: int = 1
  summary: int = 0
  micro: int = 1
  seeds: int = 1
  lag: int = 0
  delay: str = 'constant'
  ref: bool = False
  scan: bool = False  # one layer for all: four compile in two thirds, steps up to 1.25 x as long
  dtype: str = 'float32'

  @property
  def rows(self) -> int:
    return self.prompts * self.group * self.seeds * self.windows

  @property
  def sampled(self) -> int:
    """Tokens that the policy chooses, if it is never done early."""
    return self.rows // self.windows * layout(self).max_trained

  @property
  def row_tokens(self) -> int:
    """Tokens of a row, that is of a window, behind its prompt."""
    made = layout(self)
    return made.row - (0 if made.note else self.observation)


# Parts of one or two prompts keep activations in the cache of a CPU: a third of the training time.
CASES = {
    'small': Work(micro=8),
    'medium': Work(layers=8, hidden=512, heads=8, kv_heads=4, head_dim=64, mlp=2048, vocab=8192,
                   prompts=4, micro=4),
    'long-completion': Work(prompts=4, completion=1024, micro=4),
    'long-prompt': Work(prompts=4, prompt=512, micro=4),
}
CASES |= {f'{name}-ref': dataclasses.replace(work, ref=True) for name, work in CASES.items()}


@types.pytree
class State:
  """An episode: how many tokens were the rewarded one, of how many, in how many turns."""
  hits: jax.Array
  tokens: jax.Array
  turn: jax.Array


def task(work: Work) -> base.Task:
  """The task: reward at the end of the episode, the share of REWARD_TOKEN among all actions."""

  def reset(key, knobs):
    del knobs
    tokens = jax.random.randint(key, (work.prompt,), FIRST_TOKEN, work.vocab)
    zero = jnp.zeros([], jnp.int32)
    return State(zero, zero, zero), tokens, jnp.ones(work.prompt, bool)

  def step(state, action, valid, knobs):
    del knobs
    state = State(state.hits + jnp.sum((action == REWARD_TOKEN) & valid),
                  state.tokens + jnp.sum(valid), state.turn + 1)
    done = state.turn == work.turns
    share = state.hits / jnp.maximum(state.tokens, 1)
    return base.Step(
        state=state, observation=jnp.full(work.observation, FIRST_TOKEN, jnp.int32),
        valid=jnp.ones(work.observation, bool), reward=jnp.where(done, share, 0.0),
        success=share, terminated=done, truncated=jnp.asarray(False))

  def expert(state, key):
    del state, key
    action = jnp.full(work.completion, REWARD_TOKEN, jnp.int32)
    return action, jnp.ones(work.completion, bool)

  return base.Task(
      vocab=tuple(str(i) for i in range(work.vocab)), prompt_len=work.prompt,
      action_len=work.completion, observation_len=work.observation, max_turns=work.turns,
      stop_ids=tuple(range(FIRST_TOKEN, FIRST_TOKEN + work.stops)), knobs={}, reset=reset,
      reseed=lambda state, key: state, step=step,
      state_id=lambda state: state.turn.astype(jnp.uint32), expert=expert,
      note_ids=(work.vocab - 2, work.vocab - 1) if work.summary else ())


def layout(work: Work) -> types.Layout:
  """The windows of an episode; they hold all of its turns."""
  sizes = dict(prompt=work.prompt, action=work.completion, observation=work.observation)
  if work.windows == 1:
    return types.Layout(turns=work.turns, **sizes)
  return types.Layout(turns=(work.turns - 1) // work.windows, segments=work.windows, carry=1,
                      summary=work.summary, **sizes)


def shape(work: Work) -> transformer.Shape:
  """The decoder."""
  same = ('layers', 'hidden', 'heads', 'kv_heads', 'head_dim', 'mlp', 'vocab', 'scan', 'dtype')
  return transformer.Shape(tied=True, qk_norm=True, **{name: getattr(work, name) for name in same})


def _weights(work):
  """Multiplied weights: (all layers, head)."""
  queries, stored = work.heads * work.head_dim, work.kv_heads * work.head_dim
  layer = 2 * work.hidden * (queries + stored) + 3 * work.hidden * work.mlp
  return work.layers * layer, work.hidden * work.vocab


def flops(work: Work) -> dict[str, float]:
  """Least FLOPs of a step, a multiply-add being 2, with each prompt read once a group.

  Attention of n tokens behind m others costs 4 Q sum_{t=1..n} (m + t) a layer, where
  Q = heads * head_dim.
  A backward pass costs two forward ones.
  """
  body, head = _weights(work)
  attention = lambda n, before: (4 * work.heads * work.head_dim * work.layers
                                 * (n * before + n * (n + 1) / 2))
  prompts, tokens = work.prompts * work.seeds, work.row_tokens
  prefill = prompts * (2 * body * work.prompt + attention(work.prompt, 0))
  rows = work.rows * (2 * body * (tokens - 1) + attention(tokens - 1, work.prompt))
  scored = 2 * head * work.sampled
  forward = prefill + rows + scored
  return dict(generate=forward, score=forward * work.ref, train=3 * forward)


def bytes_read(work: Work) -> float:
  """Least bytes that sampling reads: the weights and what is cached, once for each token."""
  body, head = _weights(work)
  size = 2 if work.dtype == 'bfloat16' else 4
  token = 2 * work.kv_heads * work.head_dim * work.layers * size
  n = work.row_tokens
  cached = token * (work.rows * n * (n + 1) / 2 + work.prompts * work.seeds * work.prompt * n)
  return size * (body + head) * n * work.seeds + cached
