"""What a task is: pure functions over arrays, and the facts that a layout needs.

A task speaks tokens. `reset` draws one instance and its prompt; `step` takes the tokens of one
turn. States are pytrees of arrays, so they can be copied, stored and continued. `knobs` is a dict
of scalars which may be traced: one compile serves a grid of difficulties.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax

from grpo import types

__all__ = ['Task', 'Step']


@types.pytree
class Step:
  """Outcome of one turn of one episode (no batch axes)."""
  state: Any
  observation: jax.Array  # int32 [O]; padded on the left; at least one real token if O > 0
  valid: jax.Array        # bool  [O]
  reward: jax.Array       # f32 []
  success: jax.Array      # f32 []; 1 once the episode is solved; read at the end
  terminated: jax.Array   # bool []; the task is over
  truncated: jax.Array    # bool []; a time limit of the task itself cut it


@dataclasses.dataclass(frozen=True)
class Task:
  """One task. All functions are for one episode; callers vmap.

  Attributes:
    vocab: readable text of each token id; id 0 is padding.
    prompt_len, action_len, observation_len: widths of the padded parts, in tokens.
    max_turns: bound on the turns of an episode, for the knobs given at build time.
    stop_ids: tokens that end an action early. The stop token itself is a trained token.
      Empty when an action always has `action_len` tokens.
    knobs: default value of each knob (Python floats or ints).
    reset: (key, knobs) -> (state, prompt [prompt_len] int32, valid [prompt_len] bool). The prompt
      is padded on the left; its last token is real. Same key and knobs, same instance.
    reseed: (state, key) -> state. Gives the episode its own noise; called once per sample, so that
      the samples of a group share the instance but not the noise.
    step: (state, action [action_len] int32, valid [action_len] bool, knobs) -> Step. Must be total:
      any token ids are legal input, nonsense is an answer that earns nothing.
    state_id: (state) -> uint32 []. Equal for states from which the future has the same law.
    expert: (state, key) -> (action [action_len] int32, valid [action_len] bool). The scripted
      expert's next turn; may look at hidden state.
    potential: (state_id uint32 [...], knobs) -> f32 [...], how far the state is on the way, for
      potential-based shaping; may look at hidden state. None where the task has none.
    answer: (state) -> int32 [], the one token that solves the episode if it is the last action, as
      far as the state says now. None where there is no such token.
    alike: pairs of (first id, count): words of an observation that could stand for one another,
      such as the levels of a gauge; what a wrong observation mixes up.
    summary: (state) -> (words [n] int32, which are real [n] bool), what the scripted expert would
      write down when its window is full, the most important first; may look at hidden state. None:
      it copies the last observation.
    note_ids: words that open and close a note, of tasks that `rollout.compaction.speaks` has given
      them.
    rule_words: leading words of the prompt that say which rules are in force.
    scored: (state) -> bool [], read at the end: whether anything can be said of the episode. One
      of which nothing can is played and not learned from, and counts in no score. None where the
      task can always tell.
    prompt_space: number of distinct prompts, or None when it is practically unbounded.
    glue: what stands between the texts of two tokens where they are shown.
  """
  vocab: tuple[str, ...]
  prompt_len: int
  action_len: int
  observation_len: int
  max_turns: int
  stop_ids: tuple[int, ...]
  knobs: dict[str, float]
  reset: Callable
  reseed: Callable
  step: Callable
  state_id: Callable
  expert: Callable
  prompt_space: int | None = None
  potential: Callable | None = None
  answer: Callable | None = None
  alike: tuple[tuple[int, int], ...] = ()
  summary: Callable | None = None
  scored: Callable | None = None
  note_ids: tuple[int, ...] = ()
  rule_words: int = 0
  glue: str = ' '

  def render(self, tokens, valid=None) -> str:
    """Readable text of a sequence of ids (host side)."""
    ids = [int(t) for i, t in enumerate(tokens) if valid is None or valid[i]]
    return self.glue.join(self.vocab[i] for i in ids)
