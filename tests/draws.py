"""What hypothesis draws for the slot functions: shapes, the share of masked entries, a seed."""

import hypothesis
from hypothesis import strategies

SHAPES = ((3, 4, 5), (2, 2, 1), (1, 3, 4))


def times(count):
  """Runs a test `count` times with arguments shape, share and seed."""
  given = hypothesis.given(
      shape=strategies.sampled_from(SHAPES),
      share=strategies.sampled_from((0.0, 0.3, 0.7, 1.0)),
      seed=strategies.integers(0, 2**32 - 1))
  settings = hypothesis.settings(max_examples=count, deadline=None, derandomize=True)
  return lambda test: settings(given(test))
