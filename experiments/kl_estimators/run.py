"""What the gradient of a KL penalty is, by enumeration of all sequences: exact, float64.

Policy and reference are tables of logits over V = 4 tokens at each of T steps, given the token
before; the reference lies `distance` away, a normal step in every logit. With x = log pi - log ref
of the tokens of a sequence, a term of the loss has the expected gradient

    sum over sequences of mu(sequence) grad sum_t k_t,

samples held fixed, mu the policy ('on') or one that is a bit off ('off', which is also what the
ratio of `importance_weighted_k3` is taken to). In the reward, the term is a number and moves the
policy through the return to go: sum over sequences of pi grad sum_t log pi_t sum_{s >= t} k_s.
Both are held against the gradients of KL(pi || ref) and KL(ref || pi) of whole sequences.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import kl
from grpo.objective import rewards

VOCAB, LAG, SEEDS = 4, 0.3, dict(smoke=1, small=8, full=32)
STEPS = dict(smoke=(1, 2), small=(1, 4), full=(1, 5))
DISTANCES = (0.1, 0.5, 1.0)
LOSS = ('k1', 'k2', 'k3', 'importance_weighted_k3')
REWARD = ('k1', 'k2', 'k3')
ARMS = tuple(('loss', name, data) for data in ('on', 'off') for name in LOSS) + tuple(
    ('reward', name, 'on') for name in REWARD)


def sequences(steps: int) -> np.ndarray:
  """All sequences [N,T]."""
  return np.array(list(itertools.product(range(VOCAB), repeat=steps)))


def logps(table, tokens_NT):
  """log pi of each token given the one before (token 0 before the first), [N,T]."""
  before_NT = jnp.concatenate([jnp.zeros_like(tokens_NT[:, :1]), tokens_NT[:, :-1]], axis=1)
  rows = jax.nn.log_softmax(table)[jnp.arange(tokens_NT.shape[1]), before_NT]
  return jnp.take_along_axis(rows, tokens_NT[..., None], axis=2)[..., 0]


def divergence(first, second, tokens_NT):
  """KL(first || second) of whole sequences, nats."""
  a_N, b_N = logps(first, tokens_NT).sum(axis=1), logps(second, tokens_NT).sum(axis=1)
  return jnp.sum(jnp.exp(a_N) * (a_N - b_N))


def gradient(where: str, name: str, table, reference, sampler, tokens_NT):
  """Expected gradient of a KL term as it is trained."""
  sampler_NT, reference_NT = logps(sampler, tokens_NT), logps(reference, tokens_NT)
  weight_N1 = jnp.exp(sampler_NT.sum(axis=1, keepdims=True))

  def loss(table):
    logp_NT = logps(table, tokens_NT)
    if where == 'loss':
      terms_NT = getattr(kl, name)(logp_NT, reference_NT, logp_NT - sampler_NT)
    else:
      on = jnp.ones((1, *logp_NT.shape), bool)
      charge_NT = rewards.kl_in_reward(jnp.zeros(on.shape), logp_NT[None], reference_NT[None], on,
                                       coef=1.0, kind=name)[0]
      to_go_NT = jnp.cumsum(charge_NT[:, ::-1], axis=1)[:, ::-1]
      terms_NT = -jax.lax.stop_gradient(to_go_NT) * logp_NT
    return jnp.sum(weight_N1 * terms_NT)

  return jax.grad(loss)(table)


@functools.cache
def program(steps: int):
  """(table, reference, sampler) -> gradients by arm, and of the two divergences."""
  tokens = jnp.asarray(sequences(steps))

  def all_of(table, reference, sampler):
    made = {arm: gradient(arm[0], arm[1], table, reference, table if arm[2] == 'on' else sampler,
                          tokens) for arm in ARMS}
    backward = jax.grad(divergence)(table, reference, tokens)
    forward = jax.grad(divergence, argnums=1)(reference, table, tokens)
    return made, backward, forward

  return jax.jit(all_of)


def measure(steps: int, distance: float, seed: int) -> dict:
  """Arm -> relative errors against both divergences, and the norm of the gradient."""
  draw = np.random.default_rng(seed).standard_normal((3, steps, VOCAB, VOCAB))
  table = draw[0]
  made, backward, forward = jax.device_get(program(steps)(
      table, table + distance * draw[1], table + LAG * draw[2]))
  size = np.linalg.norm(backward)
  return {arm: dict(error_reverse=np.linalg.norm(g - backward) / size,
                    error_forward=np.linalg.norm(g - forward) / np.linalg.norm(forward),
                    norm=np.linalg.norm(g) / size) for arm, g in made.items()}


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv: the mean over tables, and the largest error in the reverse direction."""
  made, steps = [], STEPS[size]
  with jax.enable_x64(True):
    for i, (T, distance) in enumerate(itertools.product(steps, DISTANCES), 1):
      found = [measure(T, distance, seed) for seed in range(SEEDS[size])]
      for arm in ARMS:
        mean = {k: float(np.mean([f[arm][k] for f in found])) for k in found[0][arm]}
        made.append(dict(zip(('place', 'arm', 'data'), arm)) | dict(horizon=T, distance=distance)
                    | mean)
      progress(i, len(steps) * len(DISTANCES))
  return made
