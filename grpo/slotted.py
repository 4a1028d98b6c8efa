"""Which slots of a method go together: rules for grpo/check.py."""

from collections.abc import Iterator, Mapping
from typing import Any

from grpo import stale

__all__ = ['rules', 'shapes', 'number']

# Baselines that compare a sample with the others of its group.
GROUP = ('group_zscore', 'group_center', 'leave_one_out', 'group_mean_batch_std', 'process_zscore',
         'length_weighted', 'mean_over_mean', 'beta_density', 'informative_center', 'log_mean_exp',
         'best_of_group', 'decoupled_zscore', 'center_whiten', 'gigpo', 'hgpo', 'mt_grpo', 'igpo',
         'empg', 'mixed_baseline', 'shared_prefix', 'tree_grpo', 'treerl', 'spo_tree')
CRITIC_RETURNS = ('lambda_return', 'adaptive_lambda_return', 'bilevel_return',
                  'adaptive_segment_return', 'cross_segment_return',
                  'adaptive_cross_segment_return')
CRITIC_ADVANTAGES = ('critic', 'critic_whiten', 'mixed_baseline')
# Advantages that read which samples share a prefix.
TREES = ('shared_prefix', 'tree_grpo', 'treerl', 'spo_tree')
# Advantages of turns, and returns that add up tokens: a chunk of another size means something else.
TURN_ADVANTAGES = ('gigpo', 'hgpo', 'mt_grpo', 'igpo', 'empg')
TURN_RETURNS = ('information_gain',)
TOKEN_RETURNS = ('bilevel_return', 'adaptive_segment_return', 'cross_segment_return',
                 'adaptive_cross_segment_return')
# Advantages that subtract a number from outside the batch, and the memories that keep one.
OUTSIDE = ('minus_baseline', 'baseline_zscore')
KEEPERS = ('running_mean', 'prompt_tracker')
# Surrogates whose formula is for one level of the ratio.
LEVEL = dict(gmpo='token', dppo_tv='token', dppo_kl='token', dro='token', kl_cov='token',
             vespo='product', squared='product', pmd='product')
WHOLE_BATCH = ('kl_cov', 'clip_cov', 'top_entropy')  # compare the tokens of one optimiser batch

# Advantages that read episodes of the reference, and the anchors of a ratio.
GUIDED = 'minus_optimal_value'
OLD = ('sampler', 'recomputed', 'reference')


def rules(m: Mapping[str, Any], s: Mapping[str, Any],
          u: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
  """Pairs of (broken, what to tell the user), from the sections method, sample and train."""
  yield from _method(m, s)
  yield from stale.rules(m, s, u)
  yield from _labelled(m, s, u)
  yield from _unit(m)
  yield from _over(m, s)


ONE = ('chunk', 'returns', 'advantages', 'ratio', 'surrogate', 'kl', 'aggregate', 'critic',
       'branch')
LABELLED = ('shape', 'filter', 'correction', 'gate', 'weigh', 'memory', 'auxiliary')


def shapes(c):
  """Whether what should be a slot, or a section of labelled ones, is one."""
  bare = lambda slot: not isinstance(slot, Mapping) or not isinstance(slot.get('name'), str)
  method = c['method']
  for path, slot in (('task', c['task']), ('model', c['model']),
                     ('sample.delay', c['sample']['delay']), ('train.decay', c['train']['decay']),
                     *((f'method.{name}', method[name]) for name in ONE)):
    yield bare(slot), f'{path}: a slot is a name and arguments, {{"name": ...}}; got {slot!r}'
  for path, section in (('schedule', c['schedule']),
                        *((f'method.{name}', method[name]) for name in LABELLED)):
    broken = not isinstance(section, Mapping) or any(bare(slot) for slot in section.values())
    yield broken, (f'{path}: holds slots, each under a label, {{LABEL: {{"name": ...}}}}; got '
                   f'{section!r}')


def number(value) -> bool:
  """Traced values cannot be compared here; they are checked by their caller."""
  return isinstance(value, (int, float))


def _method(m, s):
  advantages, returns, critic = m['advantages']['name'], m['returns']['name'], m['critic']
  yield advantages in GROUP and s['group'] == 1, (
      f'method.advantages={advantages} compares a sample with its group, and sample.group=1 leaves '
      'nothing to compare with: raise sample.group, or use raw, batch_zscore or critic')
  number_of = 'sample.group' if advantages in GROUP else 'sample.prompts x sample.group'
  most = s['group'] * (1 if advantages in GROUP else s['prompts']) - 1
  ddof = m['advantages'].get('ddof', 0)
  yield number(ddof) and ddof > most, (
      f'method.advantages.ddof: must be at most {number_of} - 1 = {most}, for the divisor of the '
      f'std is n - ddof; got {ddof}')
  has_critic = critic['name'] != 'none'
  branch = m['branch']['name']
  needs = [f'method.{slot}={name}' for slot, name, names in (
      ('returns', returns, CRITIC_RETURNS), ('advantages', advantages, CRITIC_ADVANTAGES))
           if name in names]
  if m['returns'].get('bootstrap') == 'critic':
    needs.append('method.returns.bootstrap=critic')
  yield bool(needs) and not has_critic and branch != 'monte_carlo', (
      f'{", ".join(needs)}: needs a critic, and method.critic.name is none')
  yield not needs and has_critic, (
      'method.critic: no slot reads the critic; use returns or advantages that do, or name=none')
  yield from _agents(m, s, has_critic, bool(needs))
  yield m['old'] not in OLD, f'method.old: allowed are {", ".join(OLD)}; got {m["old"]!r}'
  uses_kl = m['kl']['name'] != 'none'
  yield number(m['kl_coef']) and uses_kl and m['kl_coef'] == 0, (
      f'method.kl={m["kl"]["name"]} has no weight: set method.kl_coef, or kl to none')
  yield number(m['kl_coef']) and not uses_kl and m['kl_coef'] != 0, (
      'method.kl_coef weighs nothing: method.kl is none')
  charges = any(x['name'] == 'kl_in_reward' for x in m['shape'].values())
  yield charges and m['old'] == 'reference', (
      'method.shape: kl_in_reward charges the anchor for leaving the reference, and with '
      'method.old=reference they are one; use kl in the loss, or another anchor')
  refers = uses_kl or charges or m['old'] == 'reference' or advantages == GUIDED
  yield m['reference_every'] > 0 and not refers, (
      'method.reference_every resets a reference that no slot reads')
  if has_critic:
    yield critic['start'] not in ('policy', 'fresh'), (
        f'method.critic.start: allowed are policy, fresh; got {critic["start"]!r}')
    yield critic['updates'] < 1, (
        f'method.critic.updates: must be at least 1, got {critic["updates"]}')
    yield critic['rows'] not in ('all', 'finished'), (
        f'method.critic.rows: allowed are all, finished; got {critic["rows"]!r}')
    yield critic['bootstrap'] not in ('critic', 'repeat', 'none'), (
        f'method.critic.bootstrap: allowed are critic, repeat, none; got {critic["bootstrap"]!r}')
    yield not isinstance(critic['freeze'], str), (
        f'method.critic.freeze: must be a word of the paths of parameters, or empty for none; got '
        f'{critic["freeze"]!r}')
    yield number(critic['lam']) and not 0 <= critic['lam'] <= 1, (
        f'method.critic.lam: must be in [0, 1], got {critic["lam"]}')


def _agents(m, s, has_critic, reads_values):
  """Credit by turns and windows, and rollouts that share prefixes."""
  advantages, returns, chunk = m['advantages']['name'], m['returns']['name'], m['chunk']
  branch = m['branch']
  yield advantages in TURN_ADVANTAGES and chunk['name'] not in ('turn', 'turns'), (
      f'method.advantages={advantages} is about turns, and method.chunk is {chunk["name"]}: '
      'use turn or turns')
  yield returns in TURN_RETURNS and chunk['name'] != 'turn', (
      f'method.returns={returns} is about turns, and method.chunk is {chunk["name"]}: use turn')
  yield returns in TOKEN_RETURNS and chunk['name'] != 'token', (
      f'method.returns={returns} is about tokens, and method.chunk is {chunk["name"]}: use token')
  yield advantages in TREES and branch['name'] != 'tree', (
      f'method.advantages={advantages} needs samples that share prefixes: set method.branch to '
      'tree')
  yield advantages in TREES and returns != 'outcome', (
      f'method.advantages={advantages} compares whole trajectories, and method.returns is '
      f'{returns}: use outcome')
  every = branch.get('every', 1)
  length = {'turn': 1, 'turns': chunk.get('length', 1)}.get(chunk['name'], 0)
  yield advantages in TREES and (length == 0 or every % length != 0), (
      f'method.chunk={chunk["name"]} would reach across a fork: use turn, or turns with a length '
      f'that divides method.branch.every={every}')
  if branch['name'] != 'monte_carlo':
    return
  yield has_critic, (
      'method.branch=monte_carlo and method.critic both give values: use one of them')
  yield not reads_values, (
      'method.branch=monte_carlo: no slot reads values; use returns or advantages that do')
  default = 'critic' if returns in ('lambda_return', 'adaptive_lambda_return') else 'none'
  yield m['returns'].get('bootstrap', default) == 'critic', (
      'method.returns.bootstrap=critic: method.branch=monte_carlo has no value after the last '
      'token of a cut episode; use none')
  yield length == 0 or length % every != 0, (
      f'method.chunk={chunk["name"]}: values are known every method.branch.every={every} '
      'turns; use turn or turns, with a length that is a multiple of it')
  yield s['lag'] > 0, (
      f'sample.lag={s["lag"]}: the values of method.branch=monte_carlo are those of fresh '
      'rollouts; use lag 0')


def _over(m, s):
  """Rules of over-sampling: filters choose before anything but the episodes is known."""
  filters, asks = [x['name'] for x in m['filter'].values()], f'sample.over={s["over"]}'
  if s['over'] == 1:
    return
  yield not set(filters) - {'everything', 'fresh'}, (
      f'{asks} plays groups to choose from, and no method.filter chooses: add one, or use over 1')
  yield 'uncertain' in filters, (
      f'{asks}: method.filter=uncertain compares the prompts of a batch and would drop a share of '
      'the chosen ones again; use informative or pass_rate, or over 1')
  yield any(x.get('by') == 'shaped' for x in m['filter'].values()), (
      f'{asks}: groups are chosen before rewards are shaped; filter by reward or success')
  yield m['branch']['name'] == 'monte_carlo', (
      f'{asks}: the values of method.branch=monte_carlo are those of all that was played; use '
      'over 1')
  yield s['greedy'] > 0 or s['reference'] > 0, (
      f'{asks}: sample.greedy and sample.reference play the first prompts of a step, not the '
      'chosen ones; use over 1')


def _labelled(m, s, u):
  """Rules of labelled slots and of what they need."""
  names = {slot: [x['name'] for x in m[slot].values()]
           for slot in ('shape', 'correction', 'gate', 'weigh', 'memory')}
  advantages, surrogate = m['advantages']['name'], m['surrogate']['name']
  yield bool(names['correction']) and m['old'] == 'sampler', (
      'method.correction weighs the anchor of the ratio against the sampler, and with '
      'method.old=sampler they are one: the ratio corrects already; set method.old to recomputed')
  yield bool(names['correction'] or 'adaptive_kl' in names['memory']) and m['old'] == 'reference', (
      'method.correction and adaptive_kl measure from the anchor, and with method.old=reference it '
      'never was the sampler: set method.old to recomputed')
  yield advantages == GUIDED and s['reference'] == 0, (
      f'method.advantages={GUIDED} reads episodes of the reference: set sample.reference')
  yield advantages == GUIDED and (bool(names['shape']) or m['returns']['name'] != 'outcome'), (
      f'method.advantages={GUIDED}: the value of a prompt is about whole episodes, with rewards as '
      'the task gives them; use no method.shape, and method.returns=outcome')
  yield advantages != GUIDED and s['reference'] > 0, (
      f'sample.reference plays episodes that no slot reads: use method.advantages={GUIDED}')
  yield s['reference'] > 0 and s['lag'] > 0, (
      f'sample.reference plays the prompts of this step, and sample.lag={s["lag"]} trains on those '
      'of another: use lag 0')
  for label, x in m['shape'].items():
    cache = x.get('cache')
    yield x['name'] == 'overlong' and number(cache) and not cache > 0, (
        f'method.shape.{label}.cache: must be above 0, got {cache}')
  for slot, does in (('memory', 'scale or estimate the same'), ('weigh', 'weigh by the same')):
    for name in dict.fromkeys(names[slot]):
      twice = [label for label, x in m[slot].items() if x['name'] == name]
      yield len(twice) > 1, (
          f'method.{slot}: {" and ".join(twice)} are both {name} and {does} twice: keep one')
  level = LEVEL.get(surrogate)
  yield level is not None and m['ratio']['name'] != level, (
      f'method.surrogate={surrogate} is a formula of method.ratio={level}, got '
      f'{m["ratio"]["name"]}')
  whole = [x for x in (surrogate, *names['gate']) if x in WHOLE_BATCH]
  yield bool(whole) and u['micro'] > 1, (
      f'{", ".join(whole)} compares the tokens of a whole optimiser batch: train.micro must be 1')
  keepers = [x for x in names['memory'] if x in KEEPERS]
  sources = keepers + ['sample.greedy'] * bool(s['greedy'])
  readers = [f'method.advantages={advantages}'] * (advantages in OUTSIDE)
  readers += [f'method.weigh.{label}: uncertainty with by=baseline' for label, x in
              m['weigh'].items() if x['name'] == 'uncertainty' and x.get('by') == 'baseline']
  reads = bool(readers)
  yield len(sources) > 1, (
      f'{" and ".join(sources)} each give a baseline, and one is subtracted: keep one of them')
  yield reads and not sources, (
      f'{readers[0] if reads else ""}: nothing gives a baseline; set sample.greedy, or '
      f'method.memory to one of {", ".join(KEEPERS)}')
  yield bool(sources) and not reads, (
      f'{sources[0] if sources else ""} gives a baseline that no slot reads: use method.advantages='
      f'{" or ".join(OUTSIDE)}')
  # R - Phi(s) - b has the mean V - Phi - b, not 0: both are baselines, and b knows no Phi. Nor does
  # it know a reward in another unit. A penalty of the sample alone leaves it what it is in ReMax.
  moved = [x['name'] for x in m['shape'].values() if x['name'] in ('scale', 'clip')]
  moved += [m['returns']['name']] * (m['returns']['name'] == 'potential_look_ahead')
  yield bool(sources and moved), (
      f'{sources[0] if sources else ""} gives a baseline of rewards as the task gives them, and '
      f'{", ".join(moved)} changes those of the samples: use one without the other')
  yield s['greedy'] > 0 and s['lag'] > 0, (
      'sample.greedy is a baseline of the current weights, and sample.lag above 0 trains on '
      'episodes of older ones: use lag 0, or a baseline of method.memory')
  refers = m['kl']['name'] != 'none' or 'kl_in_reward' in names['shape']
  yield 'adaptive_kl' in names['memory'] and not refers, (
      'method.memory: adaptive_kl scales a KL term, and there is none in method.kl or method.shape')
  yield advantages == 'decoupled_zscore' and not names['shape'], (
      'method.advantages=decoupled_zscore normalises several rewards, and there is one: add a slot '
      'to method.shape')
  limits = [x.get('max_lag') for x in m['filter'].values() if x['name'] == 'fresh']
  for label, x in m['weigh'].items():
    delay = s['delay']
    yield x['name'] == 'admission' and (
        delay['name'] != 'by_length' or x.get('sigma') != delay.get('sigma')
        or x.get('sigma') == 0 or [x.get('max_lag')] != limits), (
            f'method.weigh.{label}: admission undoes what a filter fresh does to rollouts that '
            'take the time of sample.delay=by_length: it needs both, with their max_lag and sigma, '
            'and a sigma above 0')
    most = x.get('most', 10.0)
    yield x['name'] == 'admission' and not (number(most) and most >= 1), (
        f'method.weigh.{label}.most: must be a number of at least 1, got {most!r}')
  yield 'prefix_share' in names['weigh'] and s['group'] == 1, (
      'method.weigh: prefix_share compares the samples of a prompt, and sample.group=1')


def _unit(m):
  """A law of shares: what it is given must stay in [0, 1], where the rewards of tasks are."""
  if m['advantages']['name'] != 'beta_density':
    return
  says = 'method.advantages=beta_density takes rewards in [0, 1]'
  for label, x in m['shape'].items():
    low, high, factor = (x.get(k, 0) for k in ('low', 'high', 'factor'))
    leaves = x['name'] in ('kl_in_reward', 'overlong')
    leaves |= x['name'] == 'scale' and number(factor) and not 0 <= factor <= 1
    leaves |= x['name'] == 'clip' and number(low) and number(high) and (low > 0 or high < 0)
    yield leaves, (f'{says}, and method.shape.{label}, {x["name"]}, moves them out: take it away, '
                   'or use method.advantages=group_center')
  returns = m['returns']['name']
  yield returns in ('potential_look_ahead', 'information_gain', *CRITIC_RETURNS), (
      f'{says}, and method.returns={returns} leaves them: use outcome or reward_to_go')
