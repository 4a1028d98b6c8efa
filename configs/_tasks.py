"""Fields of each task: sizes, which are fixed when a program is compiled, and knobs.

Adding a task: its name in TASKS and its fields in `fields`.
"""

import ml_collections

__all__ = ['TASKS', 'fields', 'interventions']

TASKS = ('arithmetic', 'countdown', 'programs', 'ladder', 'horizon', 'keychain', 'sokoban', 'line',
         'meeting', 'triage')
SEVERAL_TURNS = TASKS[3:]


def fields(name: str) -> ml_collections.ConfigDict:
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
    t.scratch = 0                          # tokens that may stand before the answer; static
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
    t.lower = 0.0                          # share of episodes of any level from 1 to level
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
    t.fatal = 0.0                          # 1: an episode that is lost ends at once
    t.manner = 0.0                         # -1 to 1: share of the reward for even or odd actions
    t.order = 0                            # m above 0 pays blocks of m decisive turns by parity
  return t


def interventions(t: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
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
