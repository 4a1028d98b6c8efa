"""Every field of an experiment, with its meaning, unit and constraint.

A variant is a file beside this one that changes slots and nothing else. The argument of a config is
`SIZE`, `SIZE,TASK`, or `SIZE,TASK,interventions`, which adds the fields of `_interventions`:

  python -m scripts.train --config=configs/grpo.py:small --workdir=runs/grpo
  python -m scripts.train --config=configs/sao.py:smoke,arithmetic --workdir=runs/sao

Sizes: smoke (seconds), small (minutes on two cores), full (an accelerator).
Tasks: those of `TASKS`; horizon is the default.

A slot is the name of a function and that function's keyword arguments; `name` must be in the
`__all__` of the module that the slot belongs to. Labelled slots (shape, filter, auxiliary) are
applied in the alphabetical order of their labels.
"""

import ml_collections

SIZES = ('smoke', 'small', 'full')
TASKS = ('arithmetic', 'countdown', 'programs', 'ladder', 'horizon', 'keychain', 'sokoban', 'line',
         'meeting', 'triage')
SEVERAL_TURNS = TASKS[3:]


def _task(name: str) -> ml_collections.ConfigDict:
  """Static sizes and knobs of one task; every knob is 0 (or neutral) in the easy case.

  A room follows its knob until it is set itself; adding 0 makes the reference go one way only.
  """
  t = ml_collections.ConfigDict(dict(name=name))
  if name == 'arithmetic':
    t.terms = 2                            # numbers that are added; at least 2
    t.digits = 1                           # digits of each, 1 to 8
    t.max_terms = t.get_ref('terms') + 0       # room in the prompt, in terms
    t.max_digits = t.get_ref('digits') + 0     # room in the prompt, in digits a term
    t.operators = '+'                      # '+*' has a token more, and makes room for products
    t.products = 0.0                       # share of products; above 0 only with operators='+*'
  elif name == 'countdown':
    t.numbers = 2                          # numbers to use, 2 to max_numbers
    t.max_numbers = t.get_ref('numbers') + 0   # room in the prompt, at most 6
    t.products = 0.0                       # probability that a step to the target is a product
    t.mixed = 0.0                          # share of prompts that show the numbers sorted
    t.form = 0.0                           # share of the reward that any legal expression earns
  elif name == 'programs':
    t.ops = 1                              # operators of the hidden function, 1 to max_ops
    t.max_ops = t.get_ref('ops') + 0           # room for the answer, in operators
    t.partial = 0.0                        # weight of the share of tests passed in the reward, 0..1
    t.examples = 4                         # input and output pairs in the prompt
    t.tests = 12                           # hidden tests
  elif name == 'line':
    t.machines = 4                         # M, machines in the row, 2 to 9
    t.decisive = 2                         # K, machines that wear, at most machines
    t.horizon = 12                         # T, turns of a shift; at least 3 (decisive + 1)
    t.max_turns = t.get_ref('horizon') + 0     # room, in turns; at least horizon
    t.visibility = 0.0                     # share of wrecks that the gauge shows
    t.delay = 0                            # turns until service, product and parts take effect
    t.drift = 0.0                          # probability a turn that some gauge moves by one level
    t.undo = 0.0                           # probability that a service repairs a wreck
    t.switch = 0.0                         # probability a turn that the wanted product changes
    t.unreliable = 0.0                     # share of gauges that lie
    t.rules = 0                            # rules that void the shift when broken, 0 to 2
    t.partial = 0.0                        # weight of the share of the quota in the reward, 0..1
  elif name == 'meeting':
    t.people = 3                           # N, who must meet, 2 to 4
    t.hours = 12                           # H, hours of the day that can be booked
    t.roles = 1                            # people whose answer is needed, 1 to people
    t.horizon = 8                          # T, turns of the day
    t.max_turns = t.get_ref('horizon') + 0     # room, in turns; at least horizon
    t.visibility = 0.0                     # share of objections to a proposal that are voiced
    t.delay = 0                            # turns until an answer comes
    t.drift = 0.0                          # probability a turn that somebody's clock changes
    t.undo = 0.0                           # probability that a wrong invitation can be sent again
    t.switch = 0.0                         # probability a turn that the goal changes
    t.unreliable = 0.0                     # share of answers that are an hour late
    t.rules = 0                            # rules that void the booking when broken, 0 to 2
    t.partial = 0.0                        # weight of the share of people who can come, 0..1
  elif name == 'triage':
    t.horizon = 8                          # T, turns of the consultation
    t.max_turns = t.get_ref('horizon') + 0     # room, in turns; at least horizon
    t.sources = 1                          # m, who answer in turn, 1 to 3
    t.unreliable = 0.0                     # share of sources that answer at random
    t.visibility = 0.0                     # share of turns for the worse that are seen
    t.delay = 0                            # turns by which signs and the lab's result come later
    t.drift = 0.0                          # probability a turn that the condition gets worse
    t.undo = 0.0                           # probability that wrong advice has no effect
    t.switch = 0.0                         # probability a turn that the wish changes
    t.rules = 0                            # red-flag rules that void the advice, 0 to 2
    t.partial = 0.0                        # weight of half right advice in the reward, 0..1
  elif name == 'ladder':
    t.level = 2                            # L1 to L7: 1, 2, 3, 4, 6, 8, 10 empty cells
    t.max_level = t.get_ref('level') + 0       # room, in levels; at least level
    t.macro = 1                            # cells that one action writes, 1 to 4
    t.spare = 2                            # turns that may be wasted before the time limit
    t.unmarked = 0.0                       # probability a turn that the next cell is not marked
    t.subgoal = 0.0                        # share of the reward that is paid cell by cell
  elif name == 'keychain':
    t.doors = 2                            # D, locked doors; the expert takes 2 D^2 turns
    t.max_doors = t.get_ref('doors') + 0       # room, in doors
    t.distractors = 0                      # keys that open nothing; they make ways longer
    t.max_distractors = t.get_ref('distractors') + 0  # room for them; 16 with max_doors at most
    t.brittle = 0.0                        # probability that a wrong key breaks in a lock
    t.hurry = 0.0                          # time limit: (2 - hurry) times the expert's turns
    t.subgoal = 0.0                        # share of the reward that is paid door by door
  elif name == 'sokoban':
    t.size = 4                             # cells of a side, 4 to 8; static
    t.boxes = 1                            # boxes, 1 to max_boxes
    t.max_boxes = t.get_ref('boxes') + 0       # room, in boxes, at most 3
    t.depth = 6                            # moves of the backward play that makes a level
    t.max_depth = t.get_ref('depth') + 0       # room; an episode has at most twice as many turns
    t.walls = 2                            # single wall cells inside, 0 to max_walls
    t.max_walls = t.get_ref('walls') + 0       # room, in walls, at most half of the cells
    t.subgoal = 0.0                        # share of the reward paid box by box
  else:
    t.horizon = 8                          # T, turns of an episode
    t.max_turns = t.get_ref('horizon') + 0     # room, in turns; at least horizon
    t.actions = 4                          # n, choices of each turn
    t.decisive = 2                         # K, turns on which success depends, spread evenly
    t.visibility = 0.0                     # share of failures that the next observation shows
    t.undo = 0.0                           # probability that the right action repairs a failure
    t.drift = 0.0                          # probability a turn that the right answers change
    t.goals = 1                            # 2 has a word more, and makes room for switches
    t.switch = 0.0                         # g, chance a turn that the goal changes; needs goals=2
    t.delay = 0                            # routine turns between the last decisive block and end
    t.unmarked = 0.0                       # 1: decisive turns look like the others
    t.sources = 1                          # m, sources that tell the cue of a turn
    t.max_sources = t.get_ref('sources') + 0   # room, in sources; at least sources
    t.unreliable = 0.0                     # e, probability that a source lies all episode long
  return t


def _interventions(t: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """Adds the turns of interventions, see grpo/tasks/interventions.py; -1 is never."""
  if t.name not in SEVERAL_TURNS:
    raise ValueError(f'interventions: task {t.name} has one turn; allowed are '
                     f'{", ".join(SEVERAL_TURNS)}')
  t.wrong_at = -1                          # the observation of this turn is wrong
  if 'switch' in t:
    t.switch_at = -1                       # the goal changes after this turn
  t.interrupt_at = -1                      # the episode is cut after this turn
  t.correct_at = -1                        # says after this turn what the expert would do
  if 'rules' in t:
    t.drop_at = -1                         # no rule counts after this turn
    t.pin_at = -1                          # observations repeat the rules from this turn on
  return t


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
  if task not in TASKS:
    raise ValueError(f'config task {task!r}: allowed are {", ".join(TASKS)}')
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

  c.task = _interventions(_task(task)) if room else _task(task)
  c.window = ml_collections.ConfigDict()
  c.window.turns = 16               # new turns of one context window; an episode of more is cut
  c.window.carry = 1                # turns copied into the next window; used from two windows on
  c.window.forget = 0               # of these the oldest that are lost; at least one must stay

  c.sample = ml_collections.ConfigDict()
  c.sample.prompts = by(8, 16, 128)   # P, prompts a step; divisible by minibatches * micro
  c.sample.group = by(4, 8, 16)       # G, samples of a prompt
  c.sample.temperature = 1.0            # > 0; enters the log-probs of sampler and trainer alike
  c.sample.lag = 0                      # steps a rollout waits before it is trained on
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
  # objective/surrogates.py, trust.py or quadratic.py
  m.surrogate = slot('ppo_clip', low=0.2, high=0.2)
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
  u.learning_rate = by(1e-3, 5e-4, 1e-5)
  u.warmup = 0                      # updates in which the rate rises from 0
  u.b1, u.b2, u.eps = 0.9, 0.95, 1e-8   # of Adam
  u.weight_decay = 0.0
  u.clip_norm = 1.0                 # norm that the whole gradient is cut to

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
