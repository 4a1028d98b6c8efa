"""Measures the two ways to score tokens without keeping all logits, with their gradients.

  python -m scripts.llm_scores --out=docs/llm_scores.csv

Positions: a few positions of all rows at a time, all of the vocabulary (models/scoring.py). Blocks:
all positions at a time, a block of the vocabulary (models/vocabulary.py), which is what is used for
a vocabulary of 2 ** 14 and more. Rounds alternate, and the least CPU seconds of each count, so that
what else the machine does matters less. `temp` is the scratch memory that the compiler asks for.
"""

import csv
import io
import os
import pathlib
import time

from absl import flags

from scripts import cells
from scripts import cli

_OUT = flags.DEFINE_string('out', '', 'CSV file to write; none by default.')
_ROUNDS = flags.DEFINE_integer('rounds', 2, 'Timed rounds of each.', lower_bound=1)
# Rows, positions of each, width, vocabulary.
CASES = ((64, 16, 576, 8192), (64, 16, 576, 49152))
FIELDS = ('rows', 'positions', 'width', 'vocab', 'head', 'way', 'temp_mib', 'cpu_seconds', 'load',
          'jax')


def _programs(rows, positions, width, vocab, head):
  """(way -> compiled gradient of a sum of log-probabilities, with entropies beside; arguments)."""
  import jax
  import jax.numpy as jnp
  import numpy as np

  from grpo.models import base
  from grpo.models import scoring
  from grpo.models import vocabulary
  stream = np.random.RandomState(0)
  hidden = stream.standard_normal((rows, 1, positions, width)).astype(np.float32)
  table = 0.05 * stream.standard_normal((vocab, width)).astype(np.float32)
  tokens = stream.randint(0, vocab, (rows, 1, positions)).astype(np.int32)
  logits = lambda table, x: jnp.matmul(x, table.T, preferred_element_type=jnp.float32)
  policy = base.Policy(*[None] * 5, logits=logits, vocab=vocab, flops=None)
  ways = dict(
      positions=lambda hidden, table: scoring._scores(policy, table, hidden, tokens, 1.0, None,
                                                      False),
      blocks=lambda hidden, table: vocabulary.scores(
          hidden, table, tokens, 1.0, block=scoring.block_size(tokens.size)))
  out = {}
  for way, scores in ways.items():
    def loss(hidden, table, scores=scores):
      logp, entropy = scores(hidden, table)  # an update reports the entropy, and has no use for it
      return jnp.sum(logp), jax.lax.stop_gradient(entropy)

    gradient = jax.grad(loss, argnums=(0, 1) if head == 'trained' else (0,), has_aux=True)
    out[way] = jax.jit(gradient).lower(hidden, table).compile()
  return out, (hidden, table)


def measure(case, head):
  """Rows of the file."""
  import jax
  programs, given = _programs(*case, head)
  seconds = {way: [] for way in programs}
  for _ in range(_ROUNDS.value + 1):
    for way, program in programs.items():
      start = time.process_time()
      jax.block_until_ready(program(*given))
      seconds[way].append(time.process_time() - start)
  for way, program in programs.items():
    temp = program.memory_analysis().temp_size_in_bytes / 2**20
    yield (*case, head, way, f'{temp:.0f}', f'{min(seconds[way][1:]):.2f}',
           f'{os.getloadavg()[0]:.1f}', jax.__version__)


def main(argv):
  del argv
  from scripts import device
  device.prepare()
  text = io.StringIO()
  lines = csv.writer(text, lineterminator='\n')
  lines.writerow(FIELDS)
  for case in CASES:
    for head in ('frozen', 'trained'):
      for row in measure(case, head):
        lines.writerow(row)
        print(' '.join(f'{k}={v}' for k, v in zip(FIELDS, row, strict=True)), flush=True)
  if _OUT.value:
    cells.write(pathlib.Path(_OUT.value), text.getvalue())
  return 0


if __name__ == '__main__':
  cli.run(main)
