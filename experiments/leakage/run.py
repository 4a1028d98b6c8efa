"""Credit on turns that do not matter, and credit of a mistake and of its repair. Exact.

Chain: H turns, two actions drawn alike, one decisive turn somewhere. R = 1 if the action there is
right. Whether it was shows at once, so an exact critic knows. All pairs of place and outcome are
played equally often, in groups that hold all of them; nothing is sampled.

Repair: the first action is right and ends the episode with R = 1, or it is BAD; then a second
action, RECOVER, gives R = 1, or another one R = 0. V = 0.75 at first and 0.5 after BAD.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from grpo.study import chains

SIZES = dict(smoke=(2, 8), small=(2, 4, 8, 16, 32), full=(2, 4, 8, 16, 32, 64, 128))
BROADCAST = ('raw outcome', 'group mean (Dr. GRPO)', 'group z-score (GRPO)',
             'leave one out (RLOO)', 'batch z-score')
TURNS = ('turn to go, z-score', 'anchors (GiGPO)')
CRITICS = tuple(f'exact critic, lambda {x}' for x in ('0', '0.5', '0.95', '1'))
ARMS = (*BROADCAST, *TURNS, *CRITICS)
REPAIR = ('group mean (Dr. GRPO)', 'group z-score (GRPO)', 'anchors (GiGPO)',
          'anchors, std (GiGPO)', 'exact critic, lambda 0', 'exact critic, lambda 1')
COPIES = 512  # of each way through the repair: its statistics are those of a large group


def chains_of(horizons):
  """All chains as one batch: a prompt is a horizon and a decisive place, padded to the longest.

  Returns:
    (rollout [P,8,T], values, relevant turns bool [P,T], horizon of each prompt).
  """
  pairs = np.array([(h, place) for h in horizons for place in range(h)])
  horizon_P11, place_P11 = (pairs[:, i, None, None] for i in (0, 1))
  right_1G1 = np.array([1, 0] * 4)[None, :, None]
  at_11T = np.arange(max(horizons))[None, None]
  known = at_11T > place_P11
  state_PGT = 1 + 3 * at_11T + known * (1 + right_1G1)
  values_PGT = np.where(known, right_1G1 * 1.0, 0.5)
  mask_PGT = np.broadcast_to(at_11T < horizon_P11, state_PGT.shape)
  reward_PG = np.broadcast_to(right_1G1[..., 0], state_PGT.shape[:2])
  played = chains.rollout(jnp.asarray(reward_PG, jnp.float32), jnp.asarray(state_PGT),
                          jnp.asarray(mask_PGT))
  return (played, jnp.asarray(values_PGT * mask_PGT, jnp.float32),
          (at_11T == place_P11)[:, 0], pairs[:, 0])


def shares(arm: str, horizons) -> dict[int, float]:
  """Share of |credit| that lies on turns which do not matter, mean over the decisive place."""
  played, values, relevant_PT, horizon_P = chains_of(horizons)
  credit_PGT = np.abs(credit(arm, played, values))
  off_P = np.sum(credit_PGT * ~relevant_PT[:, None], axis=(1, 2))
  share_P = off_P / np.sum(credit_PGT, axis=(1, 2))
  return {h: float(share_P[horizon_P == h].mean()) for h in horizons}


def credit(arm, played, values):
  """Advantages of one estimator, in one program."""
  return np.asarray(jax.jit(functools.partial(chains.credit, arm))(played, values))


def repair():
  """(rollout, values) of all ways through the repair, in one group: right twice, RECOVER, lost."""
  ways = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 0]])  # right at once, second turn, R
  ways = np.tile(ways, (COPIES, 1))
  mask = np.stack([np.ones(len(ways)), ways[:, 1]], axis=1) > 0
  values = np.where(mask, [0.75, 0.5], 0.0)
  one = lambda x, kind: jnp.asarray(x[None], kind)
  state = np.broadcast_to([1, 2], mask.shape)
  played = chains.rollout(one(ways[:, 2], jnp.float32), one(state, jnp.int32), one(mask, bool))
  return played, one(values, jnp.float32)


def credits(arm: str) -> dict[str, float]:
  """Credit of BAD and of RECOVER on the path that has both, and of BAD over all paths.

  Those of a critic are whitened over all tokens, as PPO does; the others are as their method says.
  """
  if arm == 'oracle':  # 0.5 - 0.75 and 1 - 0.5
    return dict(bad=-0.25, recover=0.5, bad_mean=-0.25)
  played, values = repair()
  credit_G2 = credit(arm, played, values)[0]
  mask_G2 = np.asarray(played.mask[0, :, 0])
  if arm.startswith('exact'):
    x = credit_G2[mask_G2]
    credit_G2 = (credit_G2 - x.mean()) / x.std()
  saved = mask_G2[:, 1] & (np.asarray(played.success[0]) > 0)
  lost = mask_G2[:, 1] & ~saved
  return dict(bad=credit_G2[saved, 0].mean(), recover=credit_G2[saved, 1].mean(),
              bad_mean=(credit_G2[saved, 0].mean() + credit_G2[lost, 0].mean()) / 2)


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv: part 'share' by horizon, part 'repair'."""
  made, arms = [], ('oracle', *REPAIR)
  total = len(ARMS) + len(arms)
  for i, arm in enumerate(ARMS, 1):
    kind = 'critic' if arm in CRITICS else 'broadcast' if arm in BROADCAST else 'turn'
    made += [dict(part='share', arm=arm, kind=kind, horizon=turns, share=share)
             for turns, share in shares(arm, SIZES[size]).items()]
    progress(i, total)
  for i, arm in enumerate(arms, 1):
    made.append(dict(part='repair', arm=arm, **credits(arm)))
    progress(len(ARMS) + i, total)
  return made
