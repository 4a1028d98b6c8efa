"""A language model from a folder: adapters, full weights, a task in its words, and training."""

import dataclasses
import json
import pathlib
import re
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip('tokenizers')
pytest.importorskip('jinja2')
safetensors = pytest.importorskip('safetensors.numpy')

from configs import base  # noqa: E402
from configs import llm  # noqa: E402
from experiments.real_math import sweep  # noqa: E402
from grpo import build  # noqa: E402
from grpo import check  # noqa: E402
from grpo import keys  # noqa: E402
from grpo.learn import loop  # noqa: E402
from grpo.learn import pretrained  # noqa: E402
from grpo.models import adapters  # noqa: E402
from grpo.models import families  # noqa: E402
from grpo.models import hf  # noqa: E402
from grpo.models import transformer  # noqa: E402
from grpo.study import evaluation  # noqa: E402
from grpo.tasks import chat_sums  # noqa: E402
from scripts import cells  # noqa: E402
from tests import chat_templates  # noqa: E402
from tests import hf_models  # noqa: E402

# A tokenizer that cuts numbers in many ways: digits alone, in pairs, behind a blank, in words.
MERGES = (('1', '2'), ('1', '1'), ('Ġ', '1'), ('Ġ1', '2'), ('x', '1'), ('1', 'x'), ('x1', '2'),
          ('1x', '2'), ('12', '12'), ('1212', '12'))


def tiny(folder: pathlib.Path) -> pathlib.Path:
  """A tiny random Qwen2 with a tokenizer and a chat template."""
  made = chat_templates.byte_level(('<|im_end|>', '<|im_start|>'), MERGES)
  made.save(str(folder / 'tokenizer.json'))
  config = hf_models.CONFIGS['qwen2'] | dict(vocab_size=272, eos_token_id=0,
                                              num_hidden_layers=1)
  (folder / 'config.json').write_text(json.dumps(config))
  (folder / 'tokenizer_config.json').write_text(json.dumps(dict(
      chat_template=chat_templates.CHATML, eos_token='<|im_end|>')))
  stream = np.random.RandomState(0)
  safetensors.save_file(
      {k: (stream.standard_normal(t.shape) * 0.1 + ('norm' in k)).astype(np.float32)
       for k, t in families.tensors(families.shape_of(config), 'qwen2').items()},
      folder / 'model.safetensors')
  return folder


class LlmTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.enterClassContext(tempfile.TemporaryDirectory())
    cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
    tiny(cls.folder)

  def config(self, method='grpo', **fields):
    c = llm.get_config(f'smollm2_sums,{method}')
    c.model.path, c.model.rank, c.steps, c.log_every = str(self.folder), 2, 2, 1
    c.model.scan = False
    c.task.action, c.sample.prompts, c.train.minibatches, c.evaluate.prompts = 4, 4, 2, 8
    c.sample.group = min(c.sample.group, 2)
    c.checkpoint.every, c.evaluate.group = 1, 1
    # A random model earns nothing: something else has to move the weights.
    c.method.entropy_coef = 0.1
    c.method.shape.long = base.slot('overlong', cache=3.0)
    with c.ignore_type():
      c.update_from_flattened_dict(fields)
    return build.plain(c)

  def test_reading_numbers_from_tokens_is_reading_them_from_text(self):
    task, tok = self.task()
    words = chat_sums.reading(task.vocab)
    stream = np.random.RandomState(1)
    likely = [i for i, t in enumerate(task.vocab) if set(t) & set('0123456789 x')] + [0, 1, 5]
    tokens = stream.choice(likely, (4000, 6)).astype(np.int32)
    valid = np.arange(6)[None] < stream.randint(0, 7, (4000, 1))
    got = jax.jit(jax.vmap(chat_sums.last_number, in_axes=(None, 0, 0)))(words, tokens, valid)
    # Special tokens have no text of their own, and part what stands on either side.
    text = lambda ids: ' '.join(tok.decode(part) for part in np.split(
        ids, np.flatnonzero(np.isin(ids, list(tok.commands)))))
    want = [chat_sums.number_in(text(t[v])) for t, v in zip(tokens, valid)]
    np.testing.assert_array_equal(got, want)
    self.assertGreater(len(set(want)), 300)
    self.assertIn(121212, want)

  def task(self):
    tok = build._text(str(self.folder))['tokenizer']
    return build.actor(self.config()).task, tok

  def test_answers(self):
    task, tok = self.task()
    pair = task.reset(keys.root(3), dict(heldout=0))[0]
    prompt = task.reset(keys.root(3), dict(heldout=0))[1:]
    text = tok.decode(np.asarray(prompt[0])[np.asarray(prompt[1])], special=True)
    a, b = map(int, re.search(r'(\d) \+ (\d)\?', text).groups())
    self.assertTrue(text.endswith('<|im_start|>assistant\n'))
    score = jax.jit(lambda tokens, valid: task.step(pair, tokens, valid, {}).success)

    def of(answer):
      ids = tok.encode(answer)[:4]
      row = np.zeros(4, np.int32)
      row[:len(ids)] = ids
      return float(score(row, np.arange(4) < len(ids)))

    self.assertEqual(of(f'{a + b}<|im_end|>'), 1)
    self.assertEqual(of(f'x{a + b}<|im_end|>'), 1)
    self.assertEqual(of(f'{a + b}'), 0)          # it never ended
    self.assertEqual(of(f'{a + b} {a}<|im_end|>'), 0)
    self.assertEqual(of('<|im_end|>'), 0)
    ids, real = task.expert(pair, None)
    self.assertEqual(float(score(ids, real)), 1)

  def test_held_out_pairs_are_others(self):
    task, _ = self.task()
    draw = jax.jit(jax.vmap(lambda i, held: task.reset(keys.stream(keys.root(0), 'x', i),
                                                       dict(heldout=held))[0].index,
                            in_axes=(0, None)))
    train, held = (set(np.asarray(draw(jnp.arange(2000), h)).tolist()) for h in (0, 1))
    self.assertEqual((len(train), len(held), len(train & held)), (80, 20, 0))
    self.assertEqual({10 * (i % 10) + i // 10 for i in held}, held)

  @parameterized.parameters(False, True)
  def test_adapters_start_at_the_base_and_merge_into_it(self, scan):
    how = dict(scan=scan, rank=2, alpha=3.0)
    model = hf.read(self.folder, **how)
    policy = adapters.policy(model.shape, adapters.frozen(model.shape, model.params))
    plain = transformer.policy(dataclasses.replace(model.shape, rank=0))
    tokens = np.arange(12, dtype=np.int32).reshape(2, 1, 6)
    run = lambda policy: jax.jit(lambda p: policy.logits(
        p, policy.forward(p, None, tokens, tokens >= 0)))
    trained = policy.init(keys.root(0))
    want = run(plain)(model.params)
    # A product with 0 is added; the compiler may order the other sums differently beside it.
    np.testing.assert_allclose(run(policy)(trained), want, atol=2e-6, rtol=0)
    moved = jax.tree.map(lambda x: x + 0.1, trained)
    got = run(policy)(moved)
    self.assertGreater(float(jnp.abs(got - want).max()), 0.01)
    np.testing.assert_allclose(
        run(plain)(adapters.merged(model.shape, model.params, moved)), got, atol=1e-5)

  @parameterized.parameters(('grpo', 2), ('sao', 2), ('grpo', 0))
  def test_trains_is_saved_and_exported(self, method, rank):
    c = self.config(method, **{'model.rank': rank, 'model.scan': not rank})
    if method == 'sao':
      c['method']['critic']['warmup'] = 1
    check.check(c)
    work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    out = loop.run(c, seeds=[0], workdir=work / 'run')
    self.assertEqual(out['bad_step'], [-1])
    config, _, _, state = evaluation.load(work / 'run')
    params = jax.tree.map(lambda x: np.asarray(x[0]), state.params)
    size = sum(x.size for x in jax.tree.leaves(params))
    given = hf.read(self.folder)
    whole = sum(x.size for x in jax.tree.leaves(given.params))
    self.assertEqual(size == whole, rank == 0)
    if method == 'sao':  # attention of the critic stays, the rest and the head do not
      critic = jax.tree.map(lambda x: np.asarray(x[0]), state.critic_params)
      self.assertFalse(critic['layers']['0']['attention']['query']['adapter_out'].any())
      self.assertTrue(critic['layers']['0']['mlp']['gate']['adapter_out'].any())
      self.assertTrue(critic['value']['kernel'].any())
    folder = pretrained.export(config, params, work / 'model')
    again = hf.read(folder)
    moved = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), again.params, given.params)
    self.assertGreater(max(jax.tree.leaves(moved)), 0)
    if rank:  # another run starts from the same adapters, those of all its seeds
      its = pretrained.export_adapters(config, params, work / 'adapter')
      config['model']['adapter'] = str(its)
      given, _ = pretrained.load(config, 2)
      jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, np.stack([b, b])), given, params)
    if method == 'grpo':
      self.assertEqual(evaluation.run(work / 'run', prompts=4, repeats=2, passes=[1])['step'], 2)

  def test_refusals(self):
    with self.assertRaisesRegex(ValueError, 'needs model.name=hf'):
      build.parts(self.config() | dict(model=dict(name='tabular')))
    c = self.config()
    c['clone']['steps'] = 20
    with self.assertRaisesRegex(ValueError, 'clone.steps=20'):
      check.check(c)
    c = self.config(**{'model.rank': 0, 'model.adapter': 'somewhere'})
    with self.assertRaisesRegex(ValueError, 'model.adapter: .* need their model.rank'):
      check.check(c)
    for field, value, message in (('question', 'sum?', 'must hold'), ('action', 1, 'at least 2'),
                                  ('shots', 9, 'shots')):
      c = self.config()
      c['task'][field] = value
      with self.assertRaisesRegex(ValueError, message):
        build.parts(c)


class ExperimentTest(parameterized.TestCase):

  @parameterized.parameters('smoke', 'small', 'full')
  def test_cells_are_legal_and_play_the_same_rollouts(self, size):
    plains = [build.plain(cells.resolve(cell)) for cell in sweep.cells(size)]
    for c in plains:
      check.check(c)
    played = {c['sample']['prompts'] * c['sample']['group'] * c['steps'] for c in plains}
    self.assertLen(played, 1)
    if size == 'small':
      self.assertEqual({c['evaluate']['prompts'] * c['evaluate']['group'] for c in plains},
                       {sweep.EPISODES})


if __name__ == '__main__':
  absltest.main()
