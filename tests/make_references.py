"""Makes tests/data/hf_logits.npz with PyTorch and transformers, and checks what we write for them.

  pip install torch transformers peft safetensors    (in an environment of its own, beside grpo)
  python -m tests.make_references                writes the file and checks every family
  python -m tests.make_references --check=FOLDER compares our logits of a model with transformers',
                                                 and both with those in float64 (Llama family)

No test imports this: PyTorch is no dependency of the project.
"""

import argparse
import pathlib
import tempfile

import jax
import numpy as np
import peft
import safetensors.numpy
import torch
import transformers

from grpo.models import adapters
from grpo.models import hf
from grpo.models import peft as format_of_peft
from grpo.models import transformer
from tests import hf_models
from tests import reference_llama


def theirs(folder, tokens, valid, change=lambda model: model):
  """Logits [B,L,V] of transformers, float32, of a model that was changed."""
  model = change(transformers.AutoModelForCausalLM.from_pretrained(
      folder, dtype=torch.float32, attn_implementation='eager')).eval()
  places = np.maximum(np.cumsum(valid, axis=1) - 1, 0)
  with torch.no_grad():
    out = model(input_ids=torch.tensor(tokens).long(), attention_mask=torch.tensor(valid).long(),
                position_ids=torch.tensor(places))
  return out.logits.float().numpy()


def ours(folder, tokens, valid):
  """The same of this package."""
  model = hf.read(folder)
  policy = transformer.policy(model.shape)
  run = lambda params: policy.logits(
      params, policy.forward(params, None, tokens[:, None], valid[:, None]))
  return np.asarray(jax.jit(run)(model.params))[:, 0]


def check(name, folder, tokens, valid):
  """Compares on the folder, and on what we write of it; returns transformers' logits."""
  want, got = theirs(folder, tokens, valid), ours(folder, tokens, valid)
  with tempfile.TemporaryDirectory() as other:
    written = hf.write(pathlib.Path(other) / 'model', hf.read(folder), shard=20_000_000)
    again = theirs(written, tokens, valid)
  gap = lambda a, b: float(np.abs(a - b)[valid].max())
  print(f'{name}: ours {gap(got, want):.2e}, written and read by transformers '
        f'{gap(again, want):.2e}, largest logit {np.abs(want[valid]).max():.1f}, same choice '
        f'{float((got.argmax(-1) == want.argmax(-1))[valid].mean()):.4f}')
  return want


def check_adapters(name, folder, tokens, valid):
  """Compares the logits of random adapters that we write with those of `peft`, which loads them."""
  model = hf.read(folder, rank=3, alpha=6.0)
  stream = np.random.RandomState(0)
  policy = adapters.policy(model.shape, adapters.frozen(model.shape, model.params))
  params = jax.tree.map(lambda x: 0.1 * stream.standard_normal(x.shape).astype(np.float32),
                        jax.eval_shape(policy.init, jax.random.key(0)))
  run = lambda params: policy.logits(
      params, policy.forward(params, None, tokens[:, None], valid[:, None]))
  got = np.asarray(jax.jit(run)(params))[:, 0]
  with tempfile.TemporaryDirectory() as other:
    its = format_of_peft.write(pathlib.Path(other) / 'adapter', model.shape,
                               model.config['model_type'], params, base=str(folder))
    want = theirs(folder, tokens, valid, lambda base: peft.PeftModel.from_pretrained(base, its))
  moved = np.abs(want - theirs(folder, tokens, valid))[valid].max()
  print(f'{name} with adapters: ours {np.abs(got - want)[valid].max():.2e}, and they move logits '
        f'by {moved:.1f}')


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--check', help='folder of a model')
  chosen = parser.parse_args().check
  if chosen:
    vocab = hf.shape(chosen).vocab
    tokens = np.random.RandomState(0).randint(3, vocab, (2, 64)).astype(np.int32)
    valid = np.ones_like(tokens, bool)
    valid[1, :9] = False
    tokens = np.where(valid, tokens, 0)
    exact = reference_llama.logits(hf.read(chosen), tokens, valid)[valid]
    for name, function in (('ours', ours), ('transformers', theirs)):
      error = np.abs(function(chosen, tokens, valid)[valid] - exact)
      print(f'{name} against float64: largest {error.max():.2e}, root mean square '
            f'{np.sqrt(np.mean(error ** 2)):.2e}')
    check(chosen, chosen, tokens, valid)
    return
  out = {}
  for name in hf_models.CONFIGS:
    with tempfile.TemporaryDirectory() as folder:
      hf_models.save(name, pathlib.Path(folder), safetensors.numpy.save_file)
      tokens, valid = hf_models.inputs(name)
      logits = check(name, pathlib.Path(folder), tokens, valid)
      check_adapters(name, pathlib.Path(folder), tokens, valid)
    out[name] = np.take_along_axis(logits, hf_models.kept(valid)[..., None], axis=1)
  np.savez_compressed(hf_models.DATA, **out)
  print(f'wrote {hf_models.DATA}: torch {torch.__version__}, transformers '
        f'{transformers.__version__}')


if __name__ == '__main__':
  main()
