"""What the three scenes of tier 4 share: instances, noise, identities and text.

An instance is a number, and everything hidden in it follows from that number. One number in five is
held out, so no training episode shares its instance with a held-out one. Noise is another stream,
drawn per turn at fixed places, so a knob never moves the draw of another one.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from grpo.tasks import base

__all__ = ['task', 'begin', 'draws', 'fresh', 'pick', 'ranks', 'whole', 'identity', 'parse',
           'transcript']

FOLDS = 5        # one instance in five is held out
BLOCKS = 2**20   # instances of each fold
_SCENE = 0x5CE4E5


def task(*, vocab, prompt_len: int, observation_len: int, max_turns: int, reset, step, expert,
         idle, alike, answer=None, **knobs) -> base.Task:
  """A scene: actions are one word, the prompt starts with two rules, and most knobs are the same.

  Args:
    vocab, prompt_len, observation_len, max_turns, reset, step, expert, alike, answer: see
      `base.Task`.
    idle: names of leaves of the state that decide nothing of the future; noise and number are.
    **knobs: defaults of the knobs that the scene has for itself.

  Returns:
    The task; `horizon` defaults to `max_turns`.
  """
  def state_id(state):
    return identity([getattr(state, f.name) for f in dataclasses.fields(state)
                     if f.name not in (*idle, 'number', 'noise')])

  common = dict(visibility=0.0, delay=0, drift=0.0, undo=0.0, switch=0.0, unreliable=0.0, rules=0,
                partial=0.0, heldout=0)
  return base.Task(
      vocab=tuple(vocab), prompt_len=prompt_len, action_len=1, observation_len=observation_len,
      max_turns=max_turns, stop_ids=(), knobs=dict(horizon=max_turns) | knobs | common, reset=reset,
      reseed=lambda state, key: dataclasses.replace(state, noise=fresh(key)), step=step,
      state_id=state_id, expert=expert, alike=alike, rule_words=2,
      answer=answer)


def begin(key, heldout, count: int):
  """Draws an instance.

  Args:
    key: scalar key.
    heldout: scalar; above 0 draws a held-out instance.
    count: numbers that the instance needs.

  Returns:
    (number int32 [], of the instance; a multiple of FOLDS if and only if it is held out;
    uniforms f32 [count], a function of the number; noise uint32 [2], a seed for `draws`).
  """
  bits = jax.random.bits(jax.random.fold_in(key, 0), (4,), jnp.uint32)
  fold = jnp.where(jnp.asarray(heldout, jnp.float32) > 0, 0, 1 + bits[1] % (FOLDS - 1))
  number = bits[0] % BLOCKS * FOLDS + fold.astype(jnp.uint32)
  data = jnp.stack([jnp.uint32(_SCENE), number])
  uniforms = jax.random.uniform(jax.random.wrap_key_data(data, impl='threefry2x32'), (count,))
  return number.astype(jnp.int32), uniforms, bits[2:]


def fresh(key):
  """Seed uint32 [2] of an episode's noise."""
  return jax.random.bits(key, (2,), jnp.uint32)


def draws(noise, turn, count: int):
  """Uniform numbers f32 [count] of one turn."""
  key = jax.random.wrap_key_data(noise, impl='threefry2x32')
  return jax.random.uniform(jax.random.fold_in(key, turn), (count,))


def pick(uniform, n: int):
  """One of n from a uniform number, int32; randint takes many times as long to compile."""
  return jnp.minimum((uniform * n).astype(jnp.int32), n - 1)


def ranks(uniforms):
  """A random order of the places of `uniforms` [n]: int32 [n], ties by place; needs no sort."""
  i = jnp.arange(uniforms.shape[0])
  a, b = uniforms[:, None], uniforms[None, :]
  return jnp.sum((b < a) | ((b == a) & (i[None, :] < i[:, None])), axis=1, dtype=jnp.int32)


def whole(knobs, name, low, high):
  """A knob as int32 [] in low..high."""
  return jnp.clip(jnp.asarray(knobs[name], jnp.int32), low, high)


def identity(leaves):
  """Hash uint32 [], above 0, of a list of arrays: equal arrays, equal hash."""
  as_bits = lambda x: (jax.lax.bitcast_convert_type(x, jnp.uint32) if x.dtype == jnp.float32
                       else x.astype(jnp.uint32))
  words = jnp.concatenate([jnp.ravel(as_bits(x)) for x in leaves])
  odd = [pow(2654435761, i + 1, 2**32) for i in range(words.shape[0])]
  words = (words ^ (words >> 15)) * jnp.uint32(2246822519)
  total = jnp.sum((words ^ (words >> 13)) * jnp.asarray(np.array(odd, np.uint32)), dtype=jnp.uint32)
  return (total ^ (total >> 16)) | jnp.uint32(1)


def parse(task, text: str) -> list[int]:
  """Token ids of a text that `task.render` wrote (host side).

  Raises:
    ValueError: a word that the task does not have.
  """
  known = {word: i for i, word in enumerate(task.vocab)}
  words = text.split()
  unknown = sorted(set(words) - set(known))
  if unknown:
    raise ValueError(f'unknown words: {", ".join(unknown)}')
  return [known[word] for word in words]


def transcript(task, prompt, valid, turns) -> str:
  """One episode as text (host side): the prompt, then a line a turn.

  Args:
    task: base.Task.
    prompt: int [prompt_len].
    valid: bool [prompt_len].
    turns: an iterable of (action [A], its validity, observation [O], its validity, reward).

  Returns:
    Lines such as `3. service-2 -> - same stock-0 g1 g0 g2 g0`; a reward that is paid is shown last.
  """
  lines = [task.render(prompt, valid)]
  for i, (action, real, observation, seen, reward) in enumerate(turns):
    paid = f'  [reward {float(reward):.2f}]' if float(reward) else ''
    lines.append(f'{i + 1}. {task.render(action, real)} -> {task.render(observation, seen)}{paid}')
  return '\n'.join(lines)
