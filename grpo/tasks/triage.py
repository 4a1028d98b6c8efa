"""Tier 4: a consultation. Find a hidden condition by unsure answers, then advise what is wanted.

The patient has one of four conditions, known by three signs; two of them suffice:

              fever rash cough
    flu        no   no   no        measles    no   yes  yes
    croup      yes  no   yes       scarlet    yes  yes  no

A sign is clear only once it has developed: one from the start, one from T / 4 on, one from T / 2
on; the prompt names the first. The right advice is to treat the condition in the way the patient
wishes, by `rest` or by `pills`; if the patient has got worse, it is `refer`, and nothing else.

Actions, one word: `ask-fever` (one of the sources answers, in turn); `lab-fever` (one sample a
consultation; its result is always true); `check` (danger signs: `flag` or `clear`); `rest-flu`,
`pills-flu`, ..., `refer` (advice: ends the consultation, and cannot be taken back); `wait`. Any
other word is `wait`. Success is the right advice. reward = partial * share + (1 - partial) *
success, once, with the advice; share is 1 for the right advice and 0.5 for the right condition in
the other way. A consultation of T turns without advice is cut (`truncated`) and pays nothing.

    prompt       rule rule wish-rest first-fever
    observation  patient fever-yes no-result steady no-news
                 who answers what, result of the lab, how the patient looks, news of the wish

Knobs (stressor): `horizon` T (long), `visibility` v (share of turns for the worse that are seen
when they happen), `delay` (turns by which signs develop later and the lab answers later), `drift` d
(probability a turn that the condition gets worse), `undo` b (probability that wrong advice has no
effect and the consultation goes on), `switch` g (probability a turn that the wish changes; told
once), `sources` m (1 to 3 take turns to answer) and `unreliable` e (share of sources that answer at
random; alone, m changes only who speaks), `rules` (how many red-flag rules void the advice when
broken: check before any treatment; no pills before the lab's result), `partial`, `heldout`. Broken
rules are recorded in the state whether they count or not.

    easy case, 20,000 episodes     success   reward at partial = 1
      expert                         1.000     1.000
      words (uniform)                0.085     0.128
      actions (uniform)              0.114     0.169
      nothing (`wait`)               0.000     0.000
      repeat (the best word)         0.128     0.193
      blind                          0.251     0.251

Ceiling: the expert, who knows the condition, and keeps both rules and waits for two signs. Floor:
actions. Exploits: to repeat an advice is to stop at once, 1 in 8; `blind` treats one condition at
once in the way that the prompt names, 1 in 4. With undo = 1 one can try every advice in turn. Drift
has an exploit of its own: who waits up to the last turn and then refers, without a look, is right
with probability 1 - (1 - d)^(T - 1), whatever the rules. For T = 8 this is 0.302, 0.522, 0.790 and
0.992 at drift 0.05, 0.1, 0.2 and 0.5; for T = 64 it is 0.469, 0.961 and 0.999 at drift 0.01, 0.05
and 0.1. A score under drift says something only above that. A policy of observations alone also
solves every easy consultation (tests/players.py).
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import base
from grpo.tasks import scenes

__all__ = ['make', 'State', 'right', 'sign', 'CONDITIONS', 'SIGNS']

SOURCES = ('patient', 'partner', 'chart')
SIGNS = ('fever', 'rash', 'cough')
CONDITIONS = ('flu', 'measles', 'croup', 'scarlet')
RULES = ('check-first', 'lab-first')
WAYS = ('rest', 'pills')
Q, C = len(SIGNS), len(CONDITIONS)
WAIT, CHECK, ASK = 1, 2, 3
LAB = ASK + Q
TREAT = LAB + Q
REFER = TREAT + 2 * C


@types.pytree
class State:
  """Latent state before an action."""
  turn: jax.Array       # int32 []
  condition: jax.Array  # int32 []
  worse: jax.Array      # bool []
  known: jax.Array      # bool []; the patient was seen to be worse
  wish: jax.Array       # int32 []; 0 rest, 1 pills
  onset: jax.Array      # int32 [3]; quarters of T after which a sign is clear
  random: jax.Array     # bool [3]; sources that answer at random
  asked: jax.Array      # int32 [3]; times that a sign was asked for
  heard: jax.Array      # bool [3]; a sign was answered with yes or no, by a source or the lab
  checked: jax.Array    # bool []
  sample: jax.Array     # int32 []; 1 + sign that the lab looks for, 0: no sample yet
  due: jax.Array        # int32 []; turns until the lab answers, 0: it does not
  broken: jax.Array     # bool [2]; rules that were broken
  horizon: jax.Array    # int32 []; T
  lag: jax.Array        # int32 []; delay
  number: jax.Array     # int32 []; the instance
  noise: jax.Array      # uint32 [2]


def sign(condition):
  """bool [3]: fever, rash and cough of a condition; cough is the exclusive or of the others."""
  high, low = condition // 2, condition % 2
  return jnp.stack([high, low, high ^ low]) > 0


def right(state):
  """Token of the right advice."""
  return jnp.where(state.worse, REFER, TREAT + C * state.wish + state.condition)


def make(*, max_turns: int = 8) -> base.Task:
  """The consultation, of at most `max_turns` turns; `horizon` defaults to that and is cut to it."""
  if max_turns < 1:
    raise ValueError(f'triage: max_turns must be at least 1, got {max_turns}')
  vocab = ['_', 'wait', 'check', *(f'ask-{s}' for s in SIGNS), *(f'lab-{s}' for s in SIGNS),
           *(f'{way}-{c}' for way in WAYS for c in CONDITIONS), 'refer']
  place = {}
  finding = [f'{s}-{a}' for s in SIGNS for a in ('no', 'yes')]
  for name, words in dict(
      who=['-', *SOURCES, 'doctor'],
      finding=['nothing', 'unclear', *finding, 'clear', 'flag', 'no-effect'],
      lab=['no-result', 'lab-unclear', *(f'lab-{x}' for x in finding)], look=['steady', 'worse'],
      wish=['no-news', 'wish-rest', 'wish-pills'], first=[f'first-{s}' for s in SIGNS],
      rule=['no-rule', *RULES]).items():
    place[name] = len(vocab)
    vocab += words
  each = jnp.arange(Q)

  def reset(key, knobs):
    number, u, noise = scenes.begin(key, knobs['heldout'], 8)
    horizon = scenes.whole(knobs, 'horizon', 1, max_turns)
    rules = scenes.whole(knobs, 'rules', 0, 2)
    zero, no, three = jnp.zeros((), jnp.int32), jnp.zeros((), bool), jnp.zeros(Q, jnp.int32)
    state = State(
        turn=zero, condition=scenes.pick(u[0], C), worse=no, known=no, wish=scenes.pick(u[1], 2),
        onset=scenes.ranks(u[2:5]), random=u[5:8] < jnp.asarray(knobs['unreliable'], jnp.float32),
        asked=three, heard=three > 0, checked=no, sample=zero, due=zero, broken=jnp.zeros(2, bool),
        horizon=horizon, lag=scenes.whole(knobs, 'delay', 0, max_turns), number=number,
        noise=noise)
    rule = place['rule'] + jnp.where(jnp.arange(2) < rules, 1 + jnp.arange(2), 0)
    told = jnp.stack([place['wish'] + 1 + state.wish, place['first'] + jnp.argmin(state.onset)])
    return state, jnp.concatenate([rule, told]).astype(jnp.int32), jnp.ones(4, bool)

  def developed(state):
    return state.onset * state.horizon <= 4 * (state.turn - state.lag)

  def step(state, action, valid, knobs):
    visibility, drift, undo, switch, partial = (
        jnp.asarray(knobs[k], jnp.float32)
        for k in ('visibility', 'drift', 'undo', 'switch', 'partial'))
    sources, u = scenes.whole(knobs, 'sources', 1, 3), scenes.draws(state.noise, state.turn, 5)
    act = jnp.where(valid[0], action[0], WAIT)
    ask, check, advises = act == ASK + each, act == CHECK, (act >= TREAT) & (act <= REFER)
    signs, clear = sign(state.condition), developed(state)
    only = lambda mask, x: jnp.max(jnp.where(mask, x, 0))  # of the sign that the mask names
    source = only(ask, state.asked % sources)
    chance = jnp.any((jnp.arange(3) == source) & state.random)
    said = jnp.where(chance, u[0] < 0.5, signs)
    taken = jnp.where(state.sample > 0, 0, only(act == LAB + each, 1 + each))
    sample = jnp.where(taken > 0, taken, state.sample)
    due = jnp.where(taken > 0, 1 + state.lag, state.due)
    tested = (due == 1) & (each + 1 == sample)
    finding = lambda yes: jnp.where(clear, 2 + 2 * each + yes, 1)

    hit = act == right(state)
    forgiven = advises & ~hit & (u[1] < undo)
    treats, pills = advises & (act < REFER), (act >= TREAT + C) & (act < REFER)
    done = (state.sample > 0) & (state.due == 0)
    broken = state.broken | jnp.stack([treats & ~state.checked, pills & ~done])
    turns, flip = u[2] < drift, u[3] < switch
    wish = jnp.where(flip, 1 - state.wish, state.wish)
    shows = turns & ~state.worse & (u[4] < visibility)
    after = dataclasses.replace(
        state, turn=state.turn + 1, worse=state.worse | turns, wish=wish,
        known=state.known | shows | (check & state.worse), asked=state.asked + ask,
        heard=state.heard | ((ask | tested) & clear), checked=state.checked | check, sample=sample,
        due=jnp.maximum(due - 1, 0), broken=broken)

    who = jnp.where(jnp.any(ask), 1 + source, jnp.where(check | forgiven, 4, 0))
    what = only(ask, finding(said)) + jnp.where(check, 8 + state.worse, 0)
    what = what + jnp.where(forgiven, 10, 0)
    observation = jnp.stack([
        place['who'] + who, place['finding'] + what, place['lab'] + only(tested, finding(signs)),
        place['look'] + shows, place['wish'] + jnp.where(flip, 1 + wish, 0)]).astype(jnp.int32)
    given = advises & ~forgiven
    kept = ~jnp.any(broken & (jnp.arange(2) < scenes.whole(knobs, 'rules', 0, 2)))
    success = (hit & kept).astype(jnp.float32)
    near = treats & ((act - TREAT) % C == state.condition) & ~state.worse
    share = jnp.maximum(success, 0.5 * (near & given & kept))
    reward = partial * share + (1 - partial) * success
    return base.Step(after, observation, jnp.ones(5, bool), reward, success, given,
                     ~given & (after.turn >= state.horizon))

  def expert(state, key):
    """Keeps both rules: check, lab, two signs, advice; refers once the danger is known."""
    del key
    late = state.turn >= state.horizon - 1
    first = jnp.argmin(state.onset)
    can = developed(state) & ~state.heard & (state.sample != 1 + each)
    waits = (state.sample == 0) | (state.due > 0) | (jnp.sum(state.heard) < 2)
    act = jnp.where(jnp.any(can), ASK + jnp.argmax(can), WAIT)
    act = jnp.where(waits, act, right(state))
    act = jnp.where(state.sample == 0, LAB + first, act)
    act = jnp.where(~state.checked | (state.worse & ~state.known), CHECK, act)
    act = jnp.where(late | (state.worse & state.known), right(state), act)
    return act[None].astype(jnp.int32), jnp.ones(1, bool)

  return scenes.task(
      vocab=vocab, prompt_len=4, observation_len=5, max_turns=max_turns, reset=reset,
      step=step, expert=expert, idle=('heard', 'known'), sources=1,
      alike=tuple((place[x] + 2 + 2 * q, 2) for x in ('finding', 'lab') for q in range(Q)),
      answer=lambda state: right(state).astype(jnp.int32))
