"""Episodes of a task's scripted expert, in the layout that the sampler fills.

For warm starts by imitation: the mask holds the expert's tokens and no others. With probability
`noise` a turn is random instead. Its tokens are real but off the mask, so the learner sees what the
expert does after a mistake and never learns the mistake.
"""

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import types
from grpo.rollout import compaction

__all__ = ['demonstrate']


def demonstrate(task, layout: types.Layout, knobs, key, *, step, prompts: int, samples: int,
                noise, forget=0) -> types.Rollout:
  """Plays `prompts` groups of `samples` episodes with the scripted expert.

  Every random number is a stream of (key, step, prompt, sample). The streams are those of the
  sampler, so the same key and step give the same instances and the same noise of the task.

  Args:
    task: tasks.base.Task.
    layout: types.Layout; its widths must be the task's.
    knobs: scalars of the task; may be traced.
    key: root key of the streams.
    step: index of the step, part of every stream.
    prompts: P.
    samples: G.
    forget: turns of the carry that are lost between two windows.
    noise: probability of a random turn, 0 to 1; uniform tokens other than padding.

  Returns:
    types.Rollout [P,G,S,L]. `logp` is 0: nobody's probabilities are recorded. Rewards that a random
    turn earned are left out, as everything off the mask is; `success` counts all turns.
  """
  for name, want in (('prompt', task.prompt_len), ('action', task.action_len),
                     ('observation', task.observation_len)):
    if getattr(layout, name) != want:
      raise ValueError(f'layout.{name}={getattr(layout, name)} but the task has {name}_len={want}')
  P, G, W = prompts, samples, layout.slots * layout.turn
  prompt_P = jnp.arange(P, dtype=jnp.int32)
  sample_G = jnp.arange(G, dtype=jnp.int32)

  def group(prompt):
    state, tokens, valid = task.reset(keys.stream(key, 'task', step, prompt), knobs)

    def episode(sample):
      noisy = task.reseed(state, keys.stream(key, 'noise', step, prompt, sample))
      return _episode(task, layout, knobs, noisy, keys.stream(key, 'expert', step, prompt, sample),
                      noise)

    return tokens, valid, jax.vmap(episode)(sample_G)

  (prompt_PL, valid_PL,
   (turns, notes, alive_PGK, success_PG, terminated_PG)) = jax.vmap(group)(prompt_P)

  # Slot j of window s holds turn s * turns + j; in a later window the first `carry` are copies.
  windows = []
  for s in range(layout.segments):
    low, copies = s * layout.turns, layout.carry if s else 0
    fields = {name: x[:, :, low:low + layout.slots] for name, x in turns.items()}
    fresh = (jnp.arange(layout.slots) >= copies)[None, None, :, None]
    for name, x in fields.items():
      if name not in ('tokens', 'valid'):
        fields[name] = jnp.where(fresh, x, jnp.asarray(-1 if name == 'turn' else 0, x.dtype))
    lost = (jnp.arange(layout.slots) < jnp.where(copies > 0, forget, 0))[None, None, :, None]
    fields['valid'] &= ~lost
    fields = {name: x.reshape(P, G, W) for name, x in fields.items()}
    if layout.note:  # the note after the last turn, and before the first the one of the last window
      before = _note(notes, low + copies - 1, copied=True, real=s > 0)
      after = _note(notes, low + layout.slots - 1, copied=False, real=s + 1 < layout.segments)
      fields = {name: jnp.concatenate([before[name], x, after[name]], axis=-1)
                for name, x in fields.items()}
    tokens, valid = compaction.window(prompt_PL, valid_PL, fields.pop('tokens'),
                                      fields.pop('valid'), alive_PGK[:, :, low + copies])
    front = ((0, 0), (0, 0), (layout.prompt, 0))
    windows.append(dict(tokens=tokens, valid=valid) | {
        name: jnp.pad(x, front, constant_values=-1 if name == 'turn' else 0)
        for name, x in fields.items()})
  fields = jax.tree.map(lambda *x: jnp.stack(x, axis=2), *windows)
  return types.Rollout(
      **fields, logp=jnp.zeros(fields['tokens'].shape), success=success_PG,
      terminated=terminated_PG, truncated=~terminated_PG, version=jnp.zeros((P, G), jnp.int32),
      prompt_id=jnp.broadcast_to(prompt_P[:, None], (P, G)),
      sample_id=jnp.broadcast_to(sample_G[None], (P, G)))


def _note(notes, k, *, copied, real):
  """Fields of the note behind turn k, [P,G,note]: as it was written, copied, or of none at all."""
  tokens, valid, state_id = (notes[name][:, :, k] for name in ('tokens', 'valid', 'state_id'))
  valid &= real
  mask = valid.at[..., 0].set(False) & (not copied)
  return dict(
      tokens=tokens, valid=valid, mask=mask, rewards=jnp.zeros(tokens.shape),
      turn=jnp.where(mask, k + 1, -1),
      state_id=jnp.where(mask, state_id[..., None], jnp.uint32(0)))


def _episode(task, layout, knobs, state, key, noise):
  """One episode: (fields of its turns [K, A + O], notes behind them, alive before each turn [K],
  success, terminated).

  K is `layout.max_turns`. A note is there for each turn, as if a window ended behind it.
  """
  stops = jnp.asarray(task.stop_ids, jnp.int32)
  O, A = layout.observation, layout.action
  draws = jax.random.uniform(keys.stream(key, 'slip'), (layout.max_turns, A + 1))
  expert_key = keys.stream(key, 'act')

  def turn(carry, item):
    index, draw = item
    state, alive, success, terminated = carry
    expert = task.expert(state, jax.random.fold_in(expert_key, index))
    # float32 may round the product up to its bound, which is no token.
    random = jnp.minimum(1 + (draw[1:] * (len(task.vocab) - 1)).astype(jnp.int32),
                         len(task.vocab) - 1)
    stop = jnp.any(random[:, None] == stops[None], axis=1)
    unstopped = jnp.cumsum(stop) - stop == 0
    slip = draw[0] < noise
    action, valid = jax.tree.map(lambda x, y: jnp.where(slip, x, y), (random, unstopped), expert)
    valid = valid & alive
    action = jnp.where(valid, action, 0)
    out = task.step(state, action, valid, knobs)
    seen = out.valid & alive
    chosen = valid & ~slip
    last = chosen & ~jnp.concatenate([valid[1:], jnp.zeros(1, bool)])
    fill = lambda x, rest=0: jnp.pad(x, (0, O), constant_values=rest)
    fields = dict(
        tokens=jnp.concatenate([action, jnp.where(seen, out.observation, 0)]),
        valid=jnp.concatenate([valid, seen]), mask=fill(chosen),
        rewards=fill(jnp.where(last, out.reward, 0.0)), turn=fill(jnp.where(chosen, index, -1), -1),
        state_id=fill(jnp.where(chosen, task.state_id(state), jnp.uint32(0))))
    keep = lambda new, old: jnp.where(alive, new, old)
    left = alive & ~out.terminated & ~out.truncated
    carry = (jax.tree.map(keep, out.state, state), left, keep(out.success, success),
             terminated | (alive & out.terminated))
    return carry, (fields, note(out, left), alive)

  def note(out, left):
    if not layout.note:
      return {}
    seen = out.observation, out.valid
    words = seen if task.summary is None else task.summary(out.state)
    tokens, valid = compaction.expert_note(*words, layout, task.note_ids)
    return dict(tokens=tokens, valid=valid & left, state_id=task.state_id(out.state))

  start = state, jnp.asarray(True), jnp.float32(0), jnp.asarray(False)
  turns = jnp.arange(layout.max_turns, dtype=jnp.int32)
  carry, (fields, notes, alive_K) = jax.lax.scan(turn, start, (turns, draws))
  return fields, notes, alive_K, carry[2], carry[3]
