"""The shared vocabulary: rollouts, demonstrations and means.

Axes, used as suffixes of array names everywhere:
  P prompts (one prompt, one group)      G samples of one prompt
  S segments: windows of one trajectory  L token positions of one window
  T the stream S * L, in time order      K chunks, the units that get credit
  N rows of one prompt, G * S            V vocabulary        D model width

Rows are windows; credit runs over streams. The model sees windows [P, G*S, L] and its cost is
linear in S. Credit sees streams [P, G, T], and every recursion steps over positions off the mask.
"""

import dataclasses

import jax
import jax.numpy as jnp

__all__ = ['Layout', 'Rollout', 'OFF_MASK', 'Mean', 'Peak', 'Metrics', 'pytree', 'scored', 'stream',
           'windows', 'rows']


def pytree(cls):
  """Frozen dataclass, registered as a pytree whose fields are all children."""
  cls = dataclasses.dataclass(frozen=True)(cls)
  names = [f.name for f in dataclasses.fields(cls)]
  return jax.tree_util.register_dataclass(cls, data_fields=names, meta_fields=[])


@dataclasses.dataclass(frozen=True)
class Layout:
  """Static places of tokens in a window: the same for every row, so a slot index is a number.

  A window is [ prompt | turn | turn | ... ], and one turn is [ action slots | observation slots ].
  Prompts and observations are padded on the left, actions on the right, so the token before the
  first token of an action is always real. Window 0 holds `carry + turns` new turns. A later window
  starts with the same prompt and a copy of the last `carry` turns (off the mask), then `turns` new
  ones. An episode has at most `carry + segments * turns` turns.

  With `summary` above 0 a window is [ prompt | note | turn | turn | ... | note ]. A note is a word
  that asks for a summary, and up to `summary` tokens of it. The policy writes the one behind the
  turns if a window follows; there it stands, copied, before the turns. Window 0 has no copy.
  """
  prompt: int
  action: int
  observation: int
  turns: int
  segments: int = 1
  carry: int = 0
  summary: int = 0

  def __post_init__(self):
    if self.segments > 1 and self.carry < 1:
      raise ValueError('a layout of several windows needs carry >= 1: the first action of a later '
                       'window follows the last observation of the window before')
    if self.segments == 1 and self.summary > 0:
      raise ValueError('a layout of one window has no summary: no window would start with it')

  @property
  def turn(self) -> int:
    """Slots of one turn."""
    return self.action + self.observation

  @property
  def slots(self) -> int:
    """Turns that fit in one window, copied ones included."""
    return self.carry + self.turns

  @property
  def note(self) -> int:
    """Slots of a note: none without summaries."""
    return 1 + self.summary if self.summary else 0

  @property
  def row(self) -> int:
    """W, positions of one window behind its prompt."""
    return self.slots * self.turn + 2 * self.note

  @property
  def length(self) -> int:
    """L, positions of one window."""
    return self.prompt + self.row

  @property
  def max_turns(self) -> int:
    """Turns of the longest episode."""
    return self.carry + self.segments * self.turns

  @property
  def stream(self) -> int:
    """T = S * L."""
    return self.segments * self.length

  @property
  def action_slots(self) -> tuple[int, ...]:
    """Positions in a window that an action token can take."""
    low = self.prompt + self.note
    return tuple(low + k * self.turn + a for k in range(self.slots) for a in range(self.action))

  @property
  def summary_slots(self) -> tuple[int, ...]:
    """Positions in a window that a token of a summary takes when it is written.

    These and the action slots are the only ones ever scored.
    """
    return tuple(range(self.length - self.summary, self.length))

  @property
  def max_trained(self) -> int:
    """Largest possible number of trained tokens of one episode."""
    return self.max_turns * self.action + (self.segments - 1) * self.summary


# Fields of a rollout that say nothing off the mask, and what stands there.
OFF_MASK = dict(mask=False, logp=0.0, rewards=0.0, turn=-1, state_id=0)


@pytree
class Rollout:
  """Sampled episodes. Windows [P, G, S, L]; everything off the mask is 0, `turn` is -1 there.

  An episode without a token on the mask is one that could not be scored, see `scored`: it is in no
  loss, no statistic of its group and no score, and its reward and success are 0.
  """
  tokens: jax.Array      # int32 [P,G,S,L]; pad is 0
  valid: jax.Array       # bool  [P,G,S,L]; a real token: prompt, action or observation
  mask: jax.Array        # bool  [P,G,S,L]; the policy chose this token, and it is trained
  logp: jax.Array        # f32   [P,G,S,L]; nats, under the policy that sampled, with temperature
  rewards: jax.Array     # f32   [P,G,S,L]; on the last token of the turn that earned them
  turn: jax.Array        # int32 [P,G,S,L]; global turn index of the episode
  state_id: jax.Array    # uint32 [P,G,S,L]; anchor key of the environment state before the turn
  success: jax.Array     # f32   [P,G]; 1 solved, 0 not: the score, apart from the reward
  terminated: jax.Array  # bool  [P,G]; the task ended the episode
  truncated: jax.Array   # bool  [P,G]; a limit of turns or tokens cut it
  version: jax.Array     # int32 [P,G]; parameter version that sampled it
  prompt_id: jax.Array   # int32 [P,G]; global index of the prompt
  sample_id: jax.Array   # int32 [P,G]; index of the sample in its group


@pytree
class Mean:
  """A metric until it is written: a total and a count. Means of parts add up exactly."""
  total: jax.Array
  count: jax.Array

  @classmethod
  def of(cls, x, mask=None) -> 'Mean':
    """Total and count of `x` (over `mask`, when given)."""
    x = jnp.asarray(x, jnp.float32)
    mask = jnp.ones(x.shape, bool) if mask is None else jnp.broadcast_to(mask, x.shape)
    return cls(jnp.sum(jnp.where(mask, x, 0.0)), jnp.sum(mask, dtype=jnp.float32))


def scored(rollout: Rollout):
  """Episodes that could be scored, bool [P,G]: those with a token on the mask."""
  return jnp.any(rollout.mask, axis=(2, 3))


def stream(x):
  """Windows [P,G,S,L] to streams [P,G,T]."""
  return x.reshape(x.shape[0], x.shape[1], -1)


def windows(x, length):
  """Streams [P,G,T] to windows [P,G,S,L]."""
  return x.reshape(x.shape[0], x.shape[1], -1, length)


def rows(x):
  """Windows [P,G,S,L] to the rows of each prompt, [P,N,L]."""
  return x.reshape(x.shape[0], -1, x.shape[-1])


@pytree
class Peak:
  """A metric of which the largest value of a window is written."""
  value: jax.Array

  @classmethod
  def of(cls, x, mask=None) -> 'Peak':
    """Largest entry of `x` (on `mask`, when given); -inf when there is none."""
    x = jnp.asarray(x, jnp.float32)
    mask = jnp.ones(x.shape, bool) if mask is None else jnp.broadcast_to(mask, x.shape)
    return cls(jnp.max(jnp.where(mask, x, -jnp.inf), initial=-jnp.inf))


@dataclasses.dataclass(frozen=True)
class Metrics:
  """Many means and peaks in three arrays, so that merging them is three operations, not hundreds.

  Leading axes (updates, steps, seeds) are allowed; the last axis is that of the names.
  """
  totals: jax.Array         # f32 [..., M]
  counts: jax.Array         # f32 [..., M]
  peaks: jax.Array          # f32 [..., K]
  means: tuple[str, ...]    # names of the M means
  maxima: tuple[str, ...]   # names of the K peaks

  @classmethod
  def pack(cls, metrics: dict) -> 'Metrics':
    """Packs a dict of Mean and Peak scalars."""
    means = tuple(k for k, v in metrics.items() if isinstance(v, Mean))
    maxima = tuple(k for k, v in metrics.items() if isinstance(v, Peak))
    column = lambda values: jnp.stack(values) if values else jnp.zeros([0])
    return cls(column([metrics[k].total for k in means]), column([metrics[k].count for k in means]),
               column([metrics[k].value for k in maxima]), means, maxima)

  def unpack(self) -> dict:
    """The dict again; scalars get the leading axes."""
    out = {k: Mean(self.totals[..., i], self.counts[..., i]) for i, k in enumerate(self.means)}
    return out | {k: Peak(self.peaks[..., i]) for i, k in enumerate(self.maxima)}

  def merge(self) -> 'Metrics':
    """Merges the first axis: totals and counts are summed, peaks are maximised."""
    return dataclasses.replace(self, totals=jnp.sum(self.totals, axis=0),
                               counts=jnp.sum(self.counts, axis=0),
                               peaks=jnp.max(self.peaks, axis=0))

  def join(self, other: 'Metrics') -> 'Metrics':
    """Both, as one; names differ."""
    both = lambda a, b: jnp.concatenate([a, b], axis=-1)
    return Metrics(both(self.totals, other.totals), both(self.counts, other.counts),
                   both(self.peaks, other.peaks), self.means + other.means,
                   self.maxima + other.maxima)


jax.tree_util.register_dataclass(Metrics, data_fields=['totals', 'counts', 'peaks'],
                                 meta_fields=['means', 'maxima'])
