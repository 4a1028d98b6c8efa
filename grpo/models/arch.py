"""What a decoder looks like, as data: its sizes, and what its family does differently.

The defaults of the second half are those of Llama; each other value belongs to some family (Qwen2:
biases; Qwen3: norms of heads; Gemma 3: scaled embedding, sandwich norms, GeGLU, layers that look
back a few hundred tokens only). A default leaves no trace in the compiled program.
"""

import dataclasses
import math

import numpy as np

__all__ = ['Shape', 'rates', 'ACTIVATIONS', 'BIASED', 'SCALINGS']

ACTIVATIONS = ('silu', 'gelu')  # gelu is the tanh form
BIASED = ('query', 'key', 'value', 'output', 'gate', 'up', 'down')
# Scalings of rotary angles, and the numbers that each takes, in order.
SCALINGS = dict(
    linear=('factor',),
    llama3=('factor', 'low_freq_factor', 'high_freq_factor', 'original_max_position_embeddings'),
    yarn=('factor', 'beta_fast', 'beta_slow', 'original_max_position_embeddings',
          'attention_factor'))


@dataclasses.dataclass(frozen=True)
class Shape:
  """Sizes of a decoder. `head_dim` need not be hidden / heads.

  `dtype` is that of products and activations; norms, softmax and logits are float32, and so are
  weights, but for those of a frozen base.
  `scan` compiles one layer for all: use it for deep models, it makes sampling slower.
  `remat` computes each layer again in the backward pass: less memory, one forward pass more.
  """
  layers: int
  hidden: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp: int
  vocab: int
  tied: bool = True
  qk_norm: bool = True
  theta: float = 1e4
  norm_eps: float = 1e-6
  dtype: str = 'float32'
  scan: bool = False
  remat: bool = False
  activation: str = 'silu'
  bias: tuple[str, ...] = ()        # projections with a bias, of BIASED
  sandwich: bool = False            # a norm behind each sub-layer as well
  embed_scale: float = 1.0          # of the token embedding, not of the head
  score_scale: float = 0.0          # of attention scores; 0 is head_dim ** -0.5
  scaling: tuple = ()               # (name of SCALINGS, its numbers) of rotary angles
  window: int = 0                   # tokens that a query of a local layer sees, itself included
  local: tuple[int, ...] = ()       # indices of the local layers
  local_theta: float = 0.0          # base of their angles, unscaled; 0 is as in all other layers
  rank: int = 0                     # of the adapters of all projections; 0 is none: adapters.py
  alpha: float = 16.0               # their weight is alpha / rank

  def __post_init__(self):
    for name in ('bias', 'scaling', 'local'):  # lists, where they come from a file
      object.__setattr__(self, name, tuple(getattr(self, name)))
    if self.heads % self.kv_heads:
      raise ValueError(f'model.heads={self.heads} must be a multiple of kv_heads={self.kv_heads}')
    if self.head_dim % 2:
      raise ValueError(f'model.head_dim={self.head_dim} must be even: rotary positions pair it up')
    if self.dtype not in ('float32', 'bfloat16'):
      raise ValueError(f"model.dtype={self.dtype!r} must be 'float32' or 'bfloat16'")
    if self.activation not in ACTIVATIONS:
      raise ValueError(f'model.activation={self.activation!r} must be one of '
                       f'{", ".join(ACTIVATIONS)}')
    if not set(self.bias) <= set(BIASED):
      raise ValueError(f'model.bias={self.bias}: allowed are {", ".join(BIASED)}')
    if self.scaling and len(self.scaling) != 1 + len(SCALINGS.get(self.scaling[0], ())):
      raise ValueError(f'model.scaling={self.scaling}: needs a name of {", ".join(SCALINGS)} and '
                       'its numbers')
    if self.local and (self.window < 1 or not set(self.local) <= set(range(self.layers))):
      raise ValueError(f'model.local={self.local}: needs a window of at least 1 (got '
                       f'{self.window}) and layers from 0 to {self.layers - 1}')


def rates(width: int, theta: float, scaling: tuple = ()) -> tuple[np.ndarray, float]:
  """Angle per position of each pair of a head, f64 [width/2], and the factor of cosine and sine.

  Plain: theta^(-2i/width), Su et al. 2021, arXiv:2104.09864. linear: slower by a factor, Chen et
  al. 2023, arXiv:2306.15595. llama3: waves longer than the original context / low_freq_factor go
  slower by the factor, those shorter than it / high_freq_factor stay, between them a ramp in the
  number of turns; Llama 3.1, arXiv:2407.21783, and its code. yarn: the same idea with a ramp in the
  index of the pair, Peng et al. 2023, arXiv:2309.00071, section 3.2, and a factor on the angles'
  cosine and sine (section 3.4; attention_factor 0 is the paper's 0.1 ln(factor) + 1).
  """
  plain = theta ** (-np.arange(0, width, 2) / width)
  if not scaling:
    return plain, 1.0
  name, factor, *more = scaling
  if name == 'linear':
    return plain / factor, 1.0
  if name == 'llama3':
    low, high, original = more
    turns = original * plain / (2 * math.pi)  # of a wave, over the original context
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return plain * (kept + (1 - kept) / factor), 1.0
  fast, slow, original, amount = more
  pair = lambda turns: width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
  first, last = max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), width - 1)
  ramp = np.clip((np.arange(width // 2) - first) / max(last - first, 1e-3), 0.0, 1.0)
  return (plain * ((1 - ramp) + ramp / factor),
          amount or (0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0))
