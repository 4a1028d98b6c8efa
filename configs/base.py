"""Every field of an experiment, with its meaning, unit and constraint.

A variant is a file beside this one that changes slots and nothing else. The argument of a config is
`SIZE`, `SIZE,TASK`, or `SIZE,TASK,interventions`, which adds those of `_tasks.interventions`:

  python -m scripts.train --config=configs/sao.py:smoke,arithmetic --workdir=runs/sao

Sizes: smoke (seconds), small (minutes on two cores), full (an accelerator). Tasks: those of
`_tasks.TASKS`, horizon by default.

A slot is the name of a function and that function's keyword arguments; `name` must be in the
`__all__` of the module that the slot belongs to. Labelled slots (shape, filter, auxiliary) are
applied in the alphabetical order of their labels.
"""

import ml_collections

from configs import _tasks

SIZES = ('smoke', 'small', 'full')


def slot(name: str, **kwargs) -> ml_collections.ConfigDict:
  """The choice of a function and its keyword arguments."""
  return ml_collections.ConfigDict(dict(name=name, **kwargs))


def parse(spec: str) -> tuple[str, str, bool]:
  """Splits 'SIZE', 'SIZE,TASK' or 'SIZE,TASK,interventions'.

  Raises:
    ValueError: unknown size, task or third word; names the allowed values.
  """
  size, task, room = (spec.split(',', 2) + ['', ''])[:3]
  size, task = size or 'small', task or 'horizon'
  if size not in SIZES:
    raise ValueError(f'config size {size!r}: allowed are {", ".join(SIZES)}')
  if task not in _tasks.TASKS:
    raise ValueError(f'config task {task!r}: allowed are {", ".join(_tasks.TASKS)}')
  if room not in ('', 'interventions'):
    raise ValueError(f'config {spec!r}: the third word can only be interventions, got {room!r}')
  return size, task, bool(room)


def get_config(spec: str = 'small') -> ml_collections.ConfigDict:
  """All fields, set to plain GRPO."""
  size, task, room = parse(spec)
  by = lambda smoke, small, full: dict(smoke=smoke, small=small, full=full)[size]

  c = ml_collections.ConfigDict()
  c.size = size                     # smoke, small or full: what the fields below were chosen for
  c.seed = 0                        # root of every random stream
  c.steps = by(20, 160, 2000)      # optimiser rounds: sample, score, credit, update
  c.log_every = by(5, 20, 50)     # steps between log points; divides `steps`

  c.task = _tasks.interventions(_tasks.fields(task)) if room else _tasks.fields(task)
  # Knobs that follow the training step: name of the knob -> slot of tasks/schedules.py.
  c.schedule = ml_collections.ConfigDict()
  c.window = ml_collections.ConfigDict()
  c.window.turns = 16               # new turns of one context window; an episode of more is cut
  c.window.carry = 1                # turns copied into the next window; used from two windows on
  c.window.forget = 0               # of these the oldest that are lost; at least one must stay
  c.window.summary = 0              # B, tokens of a summary at the end of a full window; 0: none
  c.window.compactions = -1         # C, windows after the first at most; -1: as many as it takes

  c.sample = ml_collections.ConfigDict()
  c.sample.prompts = by(8, 16, 128)   # P, prompts a step; divisible by minibatches * micro
  c.sample.group = by(4, 8, 16)       # G, samples of a prompt
  c.sample.temperature = 1.0            # > 0; enters the log-probs of sampler and trainer alike
  c.sample.lag = 0                      # steps a (single) rollout waits before it is trained on
  c.sample.delay = slot('constant')     # rollout/delays.py: how long each one takes
  c.sample.over = 1                     # groups played for each trained one: method.filter chooses
  c.sample.greedy = 0                   # greedy episodes a prompt, not trained on: the baseline
  c.sample.reference = 0                # episodes of the reference a prompt, likewise: V* of A*-PO

  c.model = slot(
      'transformer',
      layers=2,
      hidden=by(32, 64, 512),
      heads=by(2, 2, 8),
      kv_heads=by(1, 1, 4),       # divides heads
      head_dim=by(16, 16, 64),
      mlp=by(64, 128, 2048),
      tied=True,                    # one matrix embeds tokens and scores them
      qk_norm=False,                # RMSNorm on queries and keys, per head
      theta=10_000.0,               # base of the rotary angles
      dtype='float32')              # compute type: float32 or bfloat16; statistics stay float32

  c.clone = ml_collections.ConfigDict()
  c.clone.pass_rate = by(0.2, 0.3, 0.3)   # warm start: imitate the expert until this success
  c.clone.steps = by(200, 400, 2000)       # limit of cloning steps; 0 starts from random weights
  c.clone.every = by(20, 10, 50)          # cloning steps between two checks of the pass rate
  c.clone.prompts = by(32, 64, 256)       # expert episodes a cloning step
  c.clone.noise = 0.3                       # share of turns the expert is replaced by chance
  c.clone.learning_rate = by(3e-3, 1e-3, 1e-3)

  if task == 'meeting':
    # A booking is final: at noise 0.3 most days end by chance before the one turn that counts, and
    # 400 steps of 32 episodes leave a clone at the floor of 0.08.
    c.clone.noise, c.clone.prompts, c.clone.steps = 0.1, by(64, 64, 256), by(300, 400, 2000)

  m = c.method = ml_collections.ConfigDict()
  m.shape = ml_collections.ConfigDict()     # labelled slots of objective/rewards.py
  m.filter = ml_collections.ConfigDict()    # labelled slots of objective/filters.py
  m.chunk = slot('whole')                   # objective/chunks.py
  m.returns = slot('outcome')               # objective/returns.py
  m.advantages = slot('group_zscore')       # objective/advantages.py or baselines.py
  m.old = 'sampler'                         # anchor of ratios: sampler, recomputed or reference
  m.ratio = slot('token')                   # objective/ratios.py
  m.surrogate = slot('ppo_clip', low=0.2, high=0.2)  # objective/surrogates, trust or quadratic.py
  m.kl = slot('none')                       # objective/kl.py, in the loss
  m.kl_coef = 0.0                           # weight of that term; needs a kl other than none
  m.entropy_coef = 0.0                      # weight of an entropy bonus
  m.aggregate = slot('sequence')            # objective/aggregate.py
  m.correction = ml_collections.ConfigDict()  # labelled slots of objective/corrections.py
  m.gate = ml_collections.ConfigDict()      # labelled slots of objective/gates.py
  m.weigh = ml_collections.ConfigDict()     # labelled slots of objective/weigh.py
  m.memory = ml_collections.ConfigDict()    # labelled slots of objective/memory.py
  m.auxiliary = ml_collections.ConfigDict()  # labelled slots of objective/auxiliary.py
  m.reference_every = 0                     # steps between resets of the reference; 0 keeps it
  m.critic = slot('none')                   # none, or value: see `value_critic`
  m.branch = slot('none')                   # rollout/branch.py: samples that share prefixes

  u = c.train = ml_collections.ConfigDict()
  u.epochs = 1                      # passes over a batch
  u.minibatches = by(2, 4, 4)     # optimiser updates a pass; prompts are split, never a group
  u.micro = 1                       # parts of one update, to save memory; changes no result
  u.summaries = 1                   # 1: summaries are trained like actions; 0: only written
  u.learning_rate = by(1e-3, 5e-4, 1e-5)
  u.warmup = 0                      # updates in which the rate rises from 0
  u.decay = slot('constant')        # grpo/decays.py: how it falls from there to the end
  u.b1, u.b2, u.eps = 0.9, 0.95, 1e-8   # of Adam
  u.weight_decay = 0.0
  u.clip_norm = 1.0                 # norm that the whole gradient is cut to
  u.compare = 0                     # 1 logs the cosine of a step's gradient with that of the last

  c.evaluate = ml_collections.ConfigDict()
  c.evaluate.prompts = by(32, 256, 512)   # prompts scored at each log point
  c.evaluate.group = 1                      # episodes of each
  # 1: held-out prompts; 0: training prompts, where one-digit sums (100 in all) leave none out
  c.evaluate.heldout = 0 if task == 'arithmetic' else 1
  c.audit = ml_collections.ConfigDict(dict(   # of credit while it trains: study/live.py
      every=0,                      # steps between audits, a multiple of log_every; 0: none
      prompts=by(8, 16, 128), group=by(4, 8, 16), batches=8,  # fresh episodes; G at least 2
      estimators='near'))           # near: the method's own and those it is held against; or all
  # Devices over which prompts and parameters are split, and those over which a layer is.
  c.mesh = ml_collections.ConfigDict(dict(data=1, model=1))

  c.checkpoint = ml_collections.ConfigDict()
  c.checkpoint.every = by(10, 40, 100)     # steps between checkpoints; a multiple of log_every
  c.checkpoint.keep = 2                     # complete checkpoints that are kept
  return c


def pick(c: ml_collections.ConfigDict, **by_size):
  """The value of a field for the size that a config was made for."""
  return by_size[c.size]


def single_rollout(c: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """One sample of each prompt, with as many rollouts a step as before."""
  c.sample.prompts, c.sample.group = c.sample.prompts * c.sample.group, 1
  return c


def value_critic(**changes) -> ml_collections.ConfigDict:
  """The slot of a learned critic; every field can be given to any method."""
  critic = dict(
      name='value',
      lam=1.0,               # lambda of the critic's own targets
      discount=1.0,          # gamma of the critic's targets, per trained token
      updates=1,             # K, critic passes over a batch for each policy step
      warmup=0,              # steps in which only the critic learns
      learning_rate=1e-3,
      freeze='',             # parameters whose path contains this word are not trained
      clip=0.0,              # range of the clipped value loss; 0 is plain squared error
      start='policy',        # trunk at step 0: policy (its weights) or fresh
      bootstrap='critic',    # end of the targets of truncated rows: critic, repeat or none
      rows='all')            # rows that are fitted: all, or finished (no limit cut them)
  unknown = sorted(set(changes) - set(critic))
  if unknown:
    raise ValueError(f'unknown critic fields {unknown}: allowed are {sorted(critic)}')
  return ml_collections.ConfigDict(critic | changes)
