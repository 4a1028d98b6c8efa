"""Policy and task to a Rollout: whole episodes inside one program.

The prompt is read once a group. Rows go in lock-step through turns; a turn is up to A action tokens
and one step of the task, whose O observation tokens are read together with the last action token.
Loops end when every row is done. Random numbers are streams of (step, prompt, sample) with global
indices, so neither devices nor batch sizes change a draw.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import types
from grpo import writes
from grpo.rollout import compaction
from grpo.rollout import writing

__all__ = ['sample', 'check']


def check(policy, task, layout: types.Layout) -> None:
  """Refuses a layout that the task or the policy does not fit."""
  pairs = (('prompt', layout.prompt, task.prompt_len), ('action', layout.action, task.action_len),
           ('observation', layout.observation, task.observation_len))
  for name, have, want in pairs:
    if have != want:
      raise ValueError(f'layout.{name}={have} but the task has {name}_len={want}')
  if policy.vocab < len(task.vocab):
    raise ValueError(f'the policy knows {policy.vocab} tokens, the task needs {len(task.vocab)}')
  if not layout.observation and layout.max_turns > 1 and task.stop_ids:
    raise ValueError('a task of several turns whose actions can stop early needs observations: '
                     'the first token of a turn must follow a real one')
  if layout.summary and not task.note_ids:
    raise ValueError(f'layout.summary={layout.summary}: the task has no words of a note, see '
                     'compaction.speaks')


def _where(condition, new, old):
  """Leaves of `new` where `condition` [P,G], of `old` elsewhere."""
  def pick(a, b):
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):  # as data: both sides may be the same key
      data = pick(jax.random.key_data(a), jax.random.key_data(b))
      return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
    return jnp.where(jnp.expand_dims(condition, range(condition.ndim, jnp.ndim(a))), a, b)
  return jax.tree.map(pick, new, old)


def _batch(function, *axes):
  """Maps over prompts and samples; an axis of None is shared by all."""
  return jax.vmap(jax.vmap(function, in_axes=axes), in_axes=axes)


@types.pytree
class _Episode:
  """What goes on from turn to turn."""
  state: Any
  alive: jax.Array       # bool [P,G]
  success: jax.Array     # f32 [P,G]
  terminated: jax.Array  # bool [P,G]
  go: jax.Array          # bool []: some row is alive, in any seed


def sample(policy, params, task, layout: types.Layout, knobs, key, *, step, prompts: int,
           samples: int, temperature, first_prompt=0, first_sample=0, version=0,
           axis_name: str | None = None, choose: Callable | None = None,
           place: Callable = lambda tree: tree, lineage=None, forget=0, learn=1) -> types.Rollout:
  """Samples `prompts` groups of `samples` episodes.

  Args:
    policy: base.Policy.
    params: its parameters.
    task: tasks.base.Task.
    layout: types.Layout; its widths must be the task's.
    knobs: scalars of the task; may be traced.
    key: root key of the run.
    step: index of the step, part of every stream.
    prompts, samples: P groups sampled here, of G episodes.
    temperature: divides the logits, in sampling and in the recorded log-probabilities.
    first_prompt, first_sample: global indices of the first prompt and the first sample of each.
    version: parameter version that is recorded.
    axis_name: name of the vmapped axis of seeds. Loops then end when all seeds are done, so that
      their predicate is one number and no cache is copied by a select.
    choose: truncation for evaluation, from `rollout.choose`; None samples from the policy itself.
    place: applied to trees of arrays with leading axis P, such as a sharding constraint.
    lineage: int [turns, G], the sample whose action a sample repeats at a turn, see
      `rollout/branch.py`; None for independent samples.
    forget: turns of the carry that are lost between two windows.
    learn: whether tokens of summaries are on the mask; 1 or 0, may be traced.

  Returns:
    types.Rollout [P,G,S,L]. A limit of turns that cuts an episode sets `truncated`, never
    `terminated`. An episode of which the task can say nothing has no token on the mask.
  """
  check(policy, task, layout)
  P, G, A, O = prompts, samples, layout.action, layout.observation
  prompt_P = place(first_prompt + jnp.arange(P, dtype=jnp.int32))
  sample_G = first_sample + jnp.arange(G, dtype=jnp.int32)

  # One flat axis of rows: random bits of several axes take seconds to compile.
  row_B = place(jnp.arange(P * G, dtype=jnp.int32))

  def streams(name):
    one = lambda row: keys.stream(key, name, step, first_prompt + row // G, sample_G[row % G])
    return jax.vmap(one)(row_B)

  reset = lambda prompt: task.reset(keys.stream(key, 'task', step, prompt), knobs)
  state, prompt_PL, valid_PL = place(jax.vmap(reset)(prompt_P))
  state = jax.tree.map(lambda x: jnp.broadcast_to(x[:, None], (P, G, *x.shape[1:])), state)
  state = _batch(task.reseed, 0, 0)(state, streams('noise').reshape(P, G))
  if lineage is not None:
    lineage = jnp.asarray(lineage, jnp.int32)
    state = jax.tree.map(lambda x: x[:, lineage[0]], state)

  def fork(state, index):
    """New noise for the samples that leave their leader at this turn: that of the new leader."""
    leader_G, parting_G = lineage[index], lineage[index] != lineage[jnp.maximum(index - 1, 0)]
    one = lambda row: keys.stream(key, 'fork', step, first_prompt + row // G, leader_G[row % G],
                                  index)
    other = _batch(task.reseed, 0, 0)(state, jax.vmap(one)(row_B).reshape(P, G))
    return _where(jnp.broadcast_to(parting_G[None], (P, G)), other, state)

  def uniforms(name, count, width):
    draws = jax.vmap(lambda k: jax.random.uniform(k, (count * width,)))(streams(name))
    return draws.T.reshape(count, width, P, G)

  draws_KAPG = uniforms('sample', layout.max_turns, A)
  if layout.note:
    draws_SBPG = uniforms('summary', layout.segments - 1, layout.summary)
  prefix = policy.prefill(params, prompt_PL, valid_PL)
  stops = jnp.asarray(task.stop_ids, jnp.int32)
  writer = writing.Writer(policy, params, prefix, temperature, choose, axis_name)
  any_of = lambda x: writing.any_of(x, axis_name)

  def turn(loop, segment):
    slot, episode, cache, hidden_PGD, records = loop
    index = compaction.global_turn(segment, slot, layout)
    base = layout.note + slot * layout.turn
    state_id_PG = _batch(task.state_id, 0)(episode.state)
    uniforms_APG = jax.lax.dynamic_index_in_dim(draws_KAPG, index, 0, keepdims=False)
    state, leader_G = episode.state, None
    if lineage is not None:
      state, leader_G = fork(state, index), lineage[index]
    cache, token, on, (tokens, logps, valid) = writing.write(
        writer, cache, hidden_PGD, episode.alive, uniforms_APG, base, stops, leader_G=leader_G,
        sizes=writing.pieces(layout))
    actions = lambda x: jnp.moveaxis(x, 0, -1)
    out = _batch(task.step, 0, 0, 0, None)(state, actions(tokens), actions(valid), knobs)
    alive = episode.alive
    terminated = out.terminated & alive
    left = alive & ~terminated & ~out.truncated & (index + 1 < layout.max_turns)
    seen = jnp.moveaxis(out.valid, -1, 0) & alive[None]
    observed = jnp.where(seen, jnp.moveaxis(out.observation, -1, 0), 0)
    last = valid & ~jnp.concatenate([valid[1:], jnp.zeros_like(valid[:1])])
    fill = lambda x, rest: jnp.pad(x, ((0, O), (0, 0), (0, 0)), constant_values=rest)
    record = dict(
        tokens=jnp.concatenate([tokens, observed]), valid=jnp.concatenate([valid, seen]),
        mask=fill(valid, False), logp=fill(logps, 0.0),
        rewards=fill(jnp.where(last, out.reward[None], 0.0), 0.0),
        turn=fill(jnp.where(valid, index, -1), -1),
        state_id=fill(jnp.where(valid, state_id_PG[None], jnp.uint32(0)), 0))
    put = lambda buffer, x: writes.put_at(buffer, x, slot)
    records = jax.tree.map(put, records, record)
    episode = _Episode(
        state=_where(alive, out.state, episode.state), alive=left,
        success=jnp.where(alive, out.success, episode.success),
        terminated=episode.terminated | terminated, go=any_of(left))

    def read(cache, hidden):
      block = jnp.moveaxis(jnp.concatenate([token[None], observed]), 0, -1)
      real = jnp.moveaxis(jnp.concatenate([on[None], seen]), 0, -1)
      new, cache = policy.extend(params, prefix, cache, block, real, base + A - 1)
      return cache, new[:, :, -1].astype(hidden.dtype)

    if layout.slots > 1:  # nothing but a note is sampled behind the last turn of a window
      again = episode.go if layout.note else episode.go & (slot + 1 < layout.slots)
      cache, hidden_PGD = jax.lax.cond(again, read, lambda *x: x, cache, hidden_PGD)
    return slot + 1, episode, cache, hidden_PGD, records

  def write_note(episode, segment, cache):
    """The fields of the note behind the last turn, each [note,P,G]; it belongs to the next turn."""
    index = compaction.global_turn(segment, layout.slots, layout)
    uniforms_BPG = jax.lax.dynamic_index_in_dim(draws_SBPG, segment, 0, keepdims=False)
    tokens, logps, valid = writing.note(
        writer, cache, episode.alive, uniforms_BPG, layout.row - layout.note, task.note_ids,
        leader_G=None if lineage is None else lineage[index])
    state_id_PG = _batch(task.state_id, 0)(episode.state)
    mask = (valid & jnp.asarray(learn, bool)).at[0].set(False)
    return dict(
        tokens=tokens, valid=valid, mask=mask, logp=jnp.where(mask, logps, 0.0),
        rewards=jnp.zeros_like(logps), turn=jnp.where(mask, index, -1),
        state_id=jnp.where(mask, state_id_PG[None], jnp.uint32(0)))

  def blank(*shape):
    shape = *shape, P, G
    return dict(
        tokens=jnp.zeros(shape, jnp.int32), valid=jnp.zeros(shape, bool),
        mask=jnp.zeros(shape, bool), logp=jnp.zeros(shape), rewards=jnp.zeros(shape),
        turn=jnp.full(shape, -1), state_id=jnp.zeros(shape, jnp.uint32))

  def run_window(episode, segment, tokens_PGC, valid_PGC):
    """Plays one window. The first turns are copies, but in window 0."""
    copied = tokens_PGC.shape[-1]
    first = jnp.where(segment > 0, layout.carry, 0) if copied else jnp.int32(0)
    records, front = blank(layout.slots, layout.turn), blank(layout.note)
    hidden = jnp.broadcast_to(prefix.last[:, None], (P, G, prefix.last.shape[-1]))
    blocks = writing.plan(layout)
    room = blocks[0][2] if layout.slots > 1 else writing.pieces(layout)[0]
    cache = policy.start(params, prefix, G, room)
    used = episode.alive
    if copied:
      lead = lambda x: jnp.moveaxis(x.reshape(P, G, layout.carry, layout.turn), (2, 3), (0, 1))
      for name, x in (('tokens', tokens_PGC), ('valid', valid_PGC)):
        records[name] = records[name].at[:layout.carry].set(lead(x[..., layout.note:]))
        front[name] = jnp.moveaxis(x[..., :layout.note], -1, 0)

      def read(cache, hidden):
        new, cache = policy.extend(params, prefix, cache, tokens_PGC, valid_PGC, jnp.int32(0))
        return cache, new[:, :, -1].astype(hidden.dtype)

      cache, hidden = jax.lax.cond(episode.go & (segment > 0), read, lambda *x: x, cache, hidden)
    loop = (first, episode, cache, hidden, records)
    if layout.slots == 1:
      loop, blocks = turn(loop, segment), ()
    for i, (_, high, size) in enumerate(blocks):
      if i:
        cache = policy.start(params, prefix, G, size, loop[2])
        loop = (*loop[:2], cache, *loop[3:])
      loop = jax.lax.while_loop(lambda loop, high=high: (loop[0] < high) & loop[1].go,
                                lambda loop: turn(loop, segment), loop)
    _, episode, cache, _, records = loop
    records = {name: jnp.moveaxis(x, (2, 3), (0, 1)).reshape(P, G, -1)
               for name, x in records.items()}
    if layout.note:  # an episode that goes on has another window
      back = jax.lax.cond(episode.go, lambda: write_note(episode, segment, cache),
                          lambda: blank(layout.note))
      row = lambda x: jnp.moveaxis(x, 0, -1)
      records = {name: jnp.concatenate([row(front[name]), x, row(back[name])], axis=-1)
                 for name, x in records.items()}
    next_ = compaction.carried(records['tokens'], records['valid'], episode.alive, layout, forget)
    tokens, valid = compaction.window(prompt_PL, valid_PL, records.pop('tokens'),
                                      records.pop('valid'), used)
    lead = lambda x, rest: jnp.pad(x, ((0, 0), (0, 0), (layout.prompt, 0)), constant_values=rest)
    records = {name: lead(x, -1 if name == 'turn' else 0) for name, x in records.items()}
    return episode, next_, records | dict(tokens=tokens, valid=valid)

  no = jnp.zeros((P, G), bool)
  episode = _Episode(state=state, alive=~no, success=jnp.zeros((P, G)), terminated=no,
                     go=any_of(~no))
  if layout.segments == 1:
    nothing = jnp.zeros((P, G, 0), jnp.int32), jnp.zeros((P, G, 0), bool)
    episode, _, fields = run_window(episode, jnp.int32(0), *nothing)
    fields = {name: x[:, :, None] for name, x in fields.items()}
  else:
    def body(carry, segment):
      episode, copy = carry
      episode, copy, fields = run_window(episode, segment, *copy)
      return (episode, copy), fields

    width = layout.note + layout.carry * layout.turn
    copy = jnp.zeros((P, G, width), jnp.int32), jnp.zeros((P, G, width), bool)
    (episode, _), fields = jax.lax.scan(body, (episode, copy), jnp.arange(layout.segments))
    fields = {name: jnp.moveaxis(x, 0, 2) for name, x in fields.items()}
  if task.scored is not None:
    scored_PG = _batch(task.scored, 0)(episode.state)
    fields |= {name: jnp.where(scored_PG[..., None, None], fields[name], rest)
               for name, rest in types.OFF_MASK.items()}
  return types.Rollout(
      **fields, success=episode.success, terminated=episode.terminated,
      truncated=~episode.terminated,
      version=jnp.full((P, G), version, jnp.int32),
      prompt_id=jnp.broadcast_to(prompt_P[:, None], (P, G)),
      sample_id=jnp.broadcast_to(sample_G[None], (P, G)))
