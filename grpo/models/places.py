"""Where tokens are, how their heads are turned for it, and how far back a layer looks.

`local` is the kind of a layer: False for one that sees everything, True for one that sees a window,
or a traced bool where one compiled layer stands for all.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.models import attention

__all__ = ['turns', 'turned', 'window', 'prompt', 'cached', 'EVERYTHING']

EVERYTHING = 2 ** 30  # a window that no text reaches


def turns(shape, valid_PNW, before_PN, limit: int):
  """Places of tokens int32 [P,N,W], and the angles of usual and of local layers."""
  places_PNW = attention.positions(valid_PNW, before_PN)
  table = lambda theta, scaling: attention.angles(places_PNW, shape.head_dim, theta, limit, scaling)
  usual = table(shape.theta, shape.scaling)
  if not shape.local or not shape.local_theta:
    return places_PNW, usual, usual
  return places_PNW, usual, table(shape.local_theta, ())


def turned(turns, local):
  """Angles of a layer."""
  _, usual, near = turns
  if isinstance(local, bool):
    return near if local else usual
  return jax.tree.map(lambda a, b: jnp.where(local, a, b), near, usual)


def window(shape, local):
  """Tokens that a query of a layer sees, itself included; None for all."""
  if isinstance(local, bool):
    return shape.window if local else None
  return jnp.where(local, shape.window, EVERYTHING)


def prompt(shape, valid_PJ):
  """Places of the tokens of a prompt, int32 [P,1,J]; None where no layer asks for them."""
  zero_P1 = jnp.zeros((valid_PJ.shape[0], 1), jnp.int32)
  return attention.positions(valid_PJ[:, None], zero_P1) if shape.local else None


def cached(shape, prompt_PJ, closed_PNJ, open_PNJ):
  """Places of the tokens of a prompt, of closed blocks if there are any, and of the open one.

  Arguments say which slots hold a token, bool. None where no layer asks for them.
  """
  if not shape.local:
    return None
  before_P1 = masked.count(prompt_PJ, axis=1, keepdims=True, dtype=jnp.int32)
  closed = [attention.positions(closed_PNJ, before_P1)] if closed_PNJ.shape[-1] else []
  count_PN = before_P1 + masked.count(closed_PNJ, axis=2, dtype=jnp.int32)
  return [prompt(shape, prompt_PJ), *closed, attention.positions(open_PNJ, count_PN)]
