"""Log-probabilities and entropies of a linear head, a block of the vocabulary at a time.

Used where the vocabulary is large (models/scoring.py decides). Neither pass holds logits of more
than one block: the forward pass keeps a running logsumexp and a running mean of z, the backward
pass computes each block again from the states and the logsumexp.
With p = softmax(z) and H its entropy,

  d log p_t / d z_j = [j = t] - p_j          d H / d z_j = -p_j (log p_j + H).

Where the table is frozen nobody reads its gradient, and the compiler drops what would make it.
"""

import functools

import jax
import jax.numpy as jnp

__all__ = ['scores']

_LOW = -1e30  # finite: the first block has no maximum before it


def _wide(hidden):
  """The type of logits and sums: at least float32."""
  return jnp.promote_types(hidden.dtype, jnp.float32)


def _block(hidden, table, start, size, temperature):
  """Logits of a block f32 [B,size], its part of the table, and which columns are new.

  The last block begins earlier where it would reach over the end: what it shares with the one
  before is not counted twice.
  """
  first = jnp.minimum(start, table.shape[0] - size)
  part = jax.lax.dynamic_slice_in_dim(table, first, size).astype(hidden.dtype)
  logits = jnp.einsum('bd,vd->bv', hidden, part, preferred_element_type=_wide(hidden))
  column = first + jnp.arange(size)
  return logits / temperature, part, column, column >= start


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _scores(hidden_BD, table_VD, tokens_B, temperature, block):
  return _forward(hidden_BD, table_VD, tokens_B, temperature, block)[0]


def _forward(hidden, table, tokens, temperature, block):
  """Running maximum m, sum s of exp(z - m), sum u of exp(z - m) (z - m), and z of the token."""
  zero = jnp.zeros(tokens.shape, _wide(hidden))

  def body(i, carry):
    m, s, u, picked = carry
    z, _, column, new = _block(hidden, table, i * block, block, temperature)
    z = jnp.where(new[None], z, _LOW)
    top = jnp.maximum(m, z.max(axis=-1))
    ahead = z - top[:, None]
    weight = jnp.exp(ahead)
    shrink = jnp.exp(m - top)
    u = shrink * (u + s * (m - top)) + jnp.sum(weight * jnp.where(new[None], ahead, 0.0), axis=-1)
    s = shrink * s + jnp.sum(weight, axis=-1)
    is_token = (column[None] == tokens[:, None]) & new[None]
    return top, s, u, picked + jnp.sum(jnp.where(is_token, z, 0.0), axis=-1)

  count = -(-table.shape[0] // block)
  m, s, u, picked = jax.lax.fori_loop(0, count, body, (zero + _LOW, zero, zero, zero))
  total, entropy = m + jnp.log(s), jnp.log(s) - u / s
  return (picked - total, entropy), (hidden, table, tokens, temperature, total, entropy)


def _backward(block, kept, given):
  hidden, table, tokens, temperature, total, entropy = kept
  of_logp, of_entropy = given

  def body(i, carry):
    to_hidden, to_table = carry
    z, part, column, new = _block(hidden, table, i * block, block, temperature)
    log_p = z - total[:, None]
    p = jnp.where(new[None], jnp.exp(log_p), 0.0)
    is_token = (column[None] == tokens[:, None]) & new[None]
    to_z = (of_logp[:, None] * (is_token - p)
            - of_entropy[:, None] * p * (log_p + entropy[:, None])) / temperature
    to_z = to_z.astype(hidden.dtype)
    to_hidden += jnp.matmul(to_z, part, preferred_element_type=_wide(hidden))
    first = column[0]
    rows = jax.lax.dynamic_slice_in_dim(to_table, first, block)
    rows += jnp.einsum('bv,bd->vd', to_z, hidden, preferred_element_type=_wide(hidden))
    return to_hidden, jax.lax.dynamic_update_slice_in_dim(to_table, rows, first, 0)

  count = -(-table.shape[0] // block)
  start = jnp.zeros(hidden.shape, _wide(hidden)), jnp.zeros(table.shape, _wide(hidden))
  to_hidden, to_table = jax.lax.fori_loop(0, count, body, start)
  return to_hidden.astype(hidden.dtype), to_table.astype(table.dtype), None, None


_scores.defvjp(_forward, _backward)


def scores(hidden, table_VD, tokens, temperature, *, block: int):
  """Log-probability of tokens and entropy, both of softmax(hidden table^T / temperature).

  Args:
    hidden: [..,D], in the type of the products.
    table_VD: rows of the head, [V,D].
    tokens: int32 [..].
    temperature: scalar, may be traced; it gets no gradient.
    block: rows of the table whose logits are alive at once.

  Returns:
    (logp, entropy), float32 nats [..].
  """
  lead, width = tokens.shape, hidden.shape[-1]
  block = min(block, table_VD.shape[0])
  out = _scores(hidden.reshape(-1, width), table_VD, tokens.reshape(-1), temperature, block)
  return tuple(x.reshape(lead) for x in out)
