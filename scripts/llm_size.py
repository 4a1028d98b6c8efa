"""Memory and time of training by size of the model: writes docs/llm_size.md.

  python -m scripts.llm_size            writes the page; computes on shapes, needs no weights
  python -m scripts.llm_size --check    writes nothing; exit code 1 if the page is not up to date
  python -m scripts.llm_size --measure  compiles updates of 135M first, for docs/llm_size.csv

Compiled numbers are what the compiler says that a program needs beside its arguments and results,
of the gradient of one micro-batch.
"""

import csv
import dataclasses
import io
import itertools

from absl import flags

from scripts import cells
from scripts import cli
from scripts import outputs

flags.declare_key_flag('check')

_MEASURE = flags.DEFINE_boolean('measure', False, 'Compile first, and write docs/llm_size.csv.')

PAGE, MEASURED = cli.ROOT / 'docs' / 'llm_size.md', cli.ROOT / 'docs' / 'llm_size.csv'
_LLAMA = dict(head_dim=64, vocab=49152, qk_norm=False, theta=1e5)
SIZES = {
    '135M': _LLAMA | dict(layers=30, hidden=576, heads=9, kv_heads=3, mlp=1536),
    '360M': _LLAMA | dict(layers=32, hidden=960, heads=15, kv_heads=5, mlp=2560),
    '1.7B': _LLAMA | dict(layers=24, hidden=2048, heads=32, kv_heads=32, mlp=8192),
    '7B': dict(head_dim=128, vocab=152064, qk_norm=False, theta=1e6, layers=28, hidden=3584,
               heads=28, kv_heads=4, mlp=18944, tied=False, bias=('query', 'key', 'value')),
}
RANK, PROMPTS, GROUP, PROMPT, ACTION = 16, 8, 8, 128, 384
COMPUTE, BANDWIDTH = 1e14, 1e12  # FLOPs and bytes a second that the column of seconds assumes
HEAD = """\
# Memory and time by size

Written by `python -m scripts.llm_size`; do not edit. `--check` tells whether it is up to date.

A step samples {rows} rollouts, {prompts} prompts of {prompt} tokens with {group} answers of
{action} each, and makes one pass of updates over micro-batches of one prompt and its {group}
answers. Memory is in GiB. Sizes are those of SmolLM2 (135M, 360M, 1.7B) and of Qwen2.5 (7B). All
numbers of the first table are **computed** from shapes (`grpo/learn/footprint.py`).

- weights: frozen ones in the type of the products, trained ones in float32 (the master weights).
- optimiser, gradients: 12 bytes for each trained number.
- activations: what the backward pass of a micro-batch needs, with every layer kept, or with
  `model.remat` only the inputs of the layers and one layer at a time. Logits are in neither: they
  go in blocks. Where all weights are trained, bfloat16 without remat keeps a second, narrow copy of
  them: at 7B that is all it saves elsewhere.
- cache: keys and values while all {rows} rollouts are sampled; a prompt is kept once.
- peak: weights, optimiser, and the larger of the cache and gradients with activations, with remat.
  A critic of its own adds its trained weights, optimiser and gradients; adapters are their own
  reference, a reference for all weights adds them once more.
- seconds: of a step at {compute:.0f} TFLOP/s, a forward pass to sample and four to update (one of
  them for remat), plus a read of the weights for each of {action} tokens, at
  {bandwidth:.0f} TB/s. An assumption to scale by, not a promise.

{columns}
"""
COLUMNS = ('model', 'trained', 'products', 'trained numbers', 'weights', 'optimiser, gradients',
           'activations', 'with remat', 'cache', 'peak', 'seconds')
SECOND = """
## Held against compiled programs

**Measured**: what the compiler of a CPU says that the gradient of one micro-batch of the 135M model
needs beside arguments and results, in float32 (`python -m scripts.llm_size --measure`; a CPU
computes in float32 whatever the type, so bfloat16 says nothing there). What is more than computed
is scratch space; it weighs most where little else is kept and all weights have gradients.

| trained | remat | computed, GiB | compiled, GiB | compiled / computed |
|---|---|---|---|---|
"""


def layout():
  from grpo import types
  return types.Layout(prompt=PROMPT, action=ACTION, observation=0, turns=1)


def shape(name: str, rank: int, dtype: str, remat: bool):
  from grpo.models import arch
  return arch.Shape(**SIZES[name], rank=rank, alpha=2.0 * RANK, dtype=dtype, scan=True, remat=remat)


def _gib(x: float) -> str:
  return f'{x / 2**30:.3g}' if x < 100 * 2**30 else f'{x / 2**30:.0f}'


def seconds(its, weights: int) -> float:
  """Of a step; see the page. `weights` are bytes that a pass over one token reads."""
  from grpo.models import transformer
  rows = PROMPTS * GROUP
  forward = transformer.policy(dataclasses.replace(its, rank=0)).flops(
      PROMPTS * PROMPT, rows * ACTION, (PROMPT + ACTION) / 2)
  return 5 * forward / COMPUTE + ACTION * weights / BANDWIDTH


def row(name: str, rank: int, dtype: str) -> str:
  """A line of the first table."""
  from grpo.learn import footprint
  plain, remat = (footprint.footprint(shape(name, rank, dtype, kept), layout(), prompts=PROMPTS,
                                      group=GROUP, micro=1) for kept in (False, True))
  numbers = ' | '.join(_gib(x) for x in (
      plain.weights, plain.optimiser + plain.gradients, plain.activations, remat.activations,
      plain.cache, remat.peak))
  time = seconds(shape(name, rank, dtype, True), plain.weights)
  return (f'| {name} | {"adapters" if rank else "all"} | {dtype} | {plain.trained / 1e6:.4g} M | '
          f'{numbers} | {time:.2g} |')


def measured() -> str:
  """Compiles; content of docs/llm_size.csv."""
  import jax

  from grpo.learn import footprint
  out = io.StringIO()
  lines = csv.writer(out, lineterminator='\n')
  lines.writerow(['model', 'rank', 'dtype', 'remat', 'computed', 'compiled', 'jax'])
  for rank, remat in itertools.product((RANK, 0), (False, True)):
    its = shape('135M', rank, 'float32', remat)
    function, given = footprint.update(its, layout(), prompts=1, group=GROUP)
    found = jax.jit(function).lower(*given).compile().memory_analysis().temp_size_in_bytes
    said = footprint.footprint(its, layout(), prompts=PROMPTS, group=GROUP, micro=1)
    lines.writerow(['135M', rank, 'float32', int(remat), said.activations, found, jax.__version__])
    print(f'rank {rank}, remat {remat}: {_gib(found)} GiB', flush=True)
  return out.getvalue()


def page() -> str:
  """The whole document."""
  text = HEAD.format(rows=PROMPTS * GROUP, prompts=PROMPTS, prompt=PROMPT, group=GROUP,
                     action=ACTION, compute=COMPUTE / 1e12, bandwidth=BANDWIDTH / 1e12,
                     columns=f'| {" | ".join(COLUMNS)} |\n|{"---|" * len(COLUMNS)}')
  cases = itertools.product(SIZES, (RANK, 0), ('float32', 'bfloat16'))
  text += '\n'.join(row(*case) for case in cases) + '\n' + SECOND
  for line in csv.DictReader(MEASURED.read_text(encoding='utf-8').splitlines()):
    said, found = int(line['computed']), int(line['compiled'])
    text += (f'| {"adapters" if int(line["rank"]) else "all"} | '
             f'{"yes" if int(line["remat"]) else "no"} | {_gib(said)} | {_gib(found)} | '
             f'{found / said:.2f} |\n')
  return text


def main(argv):
  del argv
  from scripts import device
  device.prepare()
  if _MEASURE.value:
    cells.write(MEASURED, measured())
  made = page()
  if not outputs.CHECK.value:
    cells.write(PAGE, made)
    print(f'wrote {PAGE.relative_to(cli.ROOT)}')
    return 0
  if PAGE.read_text(encoding='utf-8') != made:
    print(f'{PAGE.relative_to(cli.ROOT)} is out of date: run python -m scripts.llm_size')
    return 1
  print(f'up to date: {PAGE.relative_to(cli.ROOT)}')
  return 0


if __name__ == '__main__':
  cli.run(main)
