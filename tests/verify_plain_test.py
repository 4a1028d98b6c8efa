"""Plain data both ways, frames, and grading with a sandbox that is none (of trusted programs)."""

import collections
import contextlib
import json
import os
import time

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies as st

from grpo.verify import code
from grpo.verify import frames
from grpo.verify import plain
from grpo.verify import sandbox
from grpo.verify import score

_KEYS = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
                     | st.text(max_size=5) | st.binary(max_size=5),
                     lambda x: st.tuples(x, x) | st.frozensets(x, max_size=3), max_leaves=4)
VALUES = st.recursive(
    _KEYS | st.floats() | st.complex_numbers(allow_nan=False),
    lambda x: (st.lists(x, max_size=4) | st.tuples(x, x) | st.sets(_KEYS, max_size=4)
               | st.dictionaries(_KEYS, x, max_size=4)), max_leaves=12)


def same(a, b):
  """Equal in type and value, NaN and the sign of zero included."""
  if type(a) is not type(b):
    return False
  if isinstance(a, float):
    return repr(a) == repr(b)  # -0.0 and nan have names of their own
  if isinstance(a, list | tuple):
    return len(a) == len(b) and all(map(same, a, b))
  if isinstance(a, dict):
    return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
  return a == b


class Liar(int):
  """Equal to everything."""

  def __eq__(self, other):
    return True

  __hash__ = int.__hash__


class PlainTest(parameterized.TestCase):

  @hypothesis.given(VALUES)
  def test_comes_back_the_same(self, value):
    self.assertTrue(same(plain.decode(plain.encode(value)), value))

  def test_bytes_by_hand(self):
    value = [(1, 2.5), {'a': b'\xff'}, {3}, 1j, True, None]
    self.assertEqual(plain.encode(value), b'[{"t":[1,2.5]},{"d":[["a",{"b":"ff"}]]},{"s":[3]},'
                                          b'{"c":[0.0,1.0]},true,null]')

  def test_instances_are_not_plain(self):
    for value in (object(), Liar(3), [Liar(3)], {Liar(3): 1}, len, int, range(3), iter([1]),
                  bytearray(b'a'), ValueError('x')):
      with self.assertRaises(plain.NotPlain):
        plain.encode(value)

  def test_dicts_of_collections_are_sent_as_dicts(self):
    grouped = collections.defaultdict(list, a=[1])
    for value in (grouped, collections.Counter('aab'), collections.OrderedDict(b=1)):
      self.assertTrue(same(plain.decode(plain.encode(value)), dict(value)))

  def test_sizes(self):
    itself, shared, deep = [], [1], []
    itself.append(itself)
    for _ in range(40):
      shared = [shared, shared]
    for _ in range(1000):
      deep = [deep]
    for value in (itself, shared, deep, 'x' * (plain.MAX_BYTES + 1), 1 << 10 ** 5,
                  [0] * (plain.MAX_NODES + 1)):
      with self.assertRaises(plain.NotPlain):
        plain.encode(value)

  @parameterized.parameters(
      b'', b'{', b'{"t":1}', b'{"t":[1],"s":[1]}', b'{}', b'{"x":[1]}', b'{"s":[[1]]}',
      b'{"d":[[1]]}', b'{"d":[[[1],1]]}', b'{"b":"zz"}', b'{"b":[1]}', b'{"c":[1]}',
      b'{"c":["1","2"]}', b'\xff', b'9' * 10_000, b'[' * 100_000,
      b'{"t":' * 60 + b'[]' + b'}' * 60, b'"\xc3\xa9"')
  def test_other_bytes_are_refused(self, data):
    with self.assertRaises(plain.NotPlain):
      plain.decode(data)

  @hypothesis.given(st.binary(max_size=60)
                    | st.text('[]{}"tsfdbc:,0123', max_size=60).map(str.encode))
  def test_any_bytes_are_plain_or_refused(self, data):
    with contextlib.suppress(plain.NotPlain):
      plain.encode(plain.decode(data))

  def test_colliding_hashes_are_refused_fast(self):
    period = 2 ** 61 - 1  # the hash of an int is its remainder
    data = json.dumps({'s': [k * period for k in range(1, 20_000)]}).encode()
    start = time.process_time()
    with self.assertRaisesRegex(plain.NotPlain, 'one hash'):
      plain.decode(data)
    self.assertLess(time.process_time() - start, 1.0)


class FramesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.source, self.target = os.pipe()
    self.addCleanup(os.close, self.source)

  def test_messages(self):
    frames.write(self.target, b'a' * 1000)
    frames.write(self.target, b'')
    os.close(self.target)
    self.assertEqual(frames.read(self.source, 1000), b'a' * 1000)
    self.assertEqual(frames.read(self.source, 1000), b'')
    with self.assertRaises(frames.Closed):
      frames.read(self.source, 1000)

  def test_half_a_message_is_late(self):
    os.write(self.target, b'\0\0\0\x09half')
    with self.assertRaises(frames.Late):
      frames.read(self.source, 1000, time.monotonic() + 0.05)
    os.close(self.target)

  def test_too_long_is_refused_before_it_is_read(self):
    os.write(self.target, b'\xff\xff\xff\xff')
    with self.assertRaises(frames.Closed):
      frames.read(self.source, 1000)
    os.close(self.target)


class NoBox:
  """Runs trusted programs right here, for tests of what is done with their answers."""

  name = 'none'
  limits = sandbox.Limits()

  def __init__(self, server_ends=0):
    self.left = server_ends  # sessions in which the sandbox itself ends

  def ready(self):
    pass

  def usage(self):
    return 0.0

  def close(self):
    pass

  @contextlib.contextmanager
  def session(self, program, entry):
    if 'crash' in program and self.left:
      self.left -= 1
      raise sandbox.Failure('server')
    space = {}
    try:
      exec(program, space)
      function = space[entry]
    except Exception as error:
      raise sandbox.Failure('raised', str(error)) from error
    def call(*args):
      try:
        return function(*args)
      except Exception as error:
        raise sandbox.Failure('raised', str(error)) from error
    yield call


TESTS = (code.case(1, returns=2), code.case(2, returns=4), code.case(3, returns=6))


class GradeTest(parameterized.TestCase):

  def grade(self, *programs, tests=TESTS, box=None):
    return code.grade(box or NoBox(), [code.Job(p, 'f', tests) for p in programs])

  def test_every_test_must_be_seen_to_pass(self):
    right, shown, syntax, load, other = self.grade(
        'f = lambda n: 2 * n', 'f = lambda n: {1: 2}[n]', 'def f(', '1 / 0', 'g = abs')
    self.assertTrue(right.all)
    self.assertEqual(right, code.Graded((True, True, True), 'right'))
    self.assertEqual(shown, code.Graded((True, False, False), 'raised'))
    for graded in (syntax, load, other):
      self.assertEqual(graded, code.Graded((False, False, False), 'raised'))

  def test_no_tests_is_no_pass(self):
    self.assertFalse(self.grade('f = abs', tests=())[0].all)

  def test_a_test_that_hides_a_failure_has_failed(self):
    def lenient(candidate):
      with contextlib.suppress(Exception):
        candidate(1)
    self.assertEqual(self.grade('f = lambda n: 1 / 0', tests=(lenient,))[0].passed, (False,))

  def test_a_test_of_what_is_not_plain_is_our_fault(self):
    def faulty(candidate):
      plain.encode(object())
    with self.assertRaises(plain.NotPlain):
      self.grade('f = abs', tests=(faulty,))

  def test_who_ends_the_sandbox_alone_has_failed_and_others_have_not(self):
    once = self.grade('f = lambda n: 2 * n  # crash', 'f = abs', box=NoBox(server_ends=1))
    self.assertEqual([g.reason for g in once], ['right', 'wrong'])
    always = self.grade('f = lambda n: 2 * n  # crash', box=NoBox(server_ends=9))
    self.assertEqual(always, [code.Graded((False, False, False), 'server')])

  def test_tolerance(self):
    test = code.case(1, returns=0.5, tolerance=0.1)
    for program, good in (('f = lambda n: 0.55', True), ('f = lambda n: 0.7', False),
                          ('f = lambda n: "x"', False), ('f = lambda n: float("nan")', False)):
      self.assertEqual(self.grade(program, tests=(test,))[0].all, good)

  def test_verifier(self):
    verify = code.Verifier(NoBox())
    block = '```python\nf = lambda n: {} * n\n```'
    scores = verify([block.format(2), block.format(3), 'f is 2 n', block.format(2)],
                    [('f', TESTS), ('f', TESTS), ('f', TESTS), None])
    self.assertEqual(scores, [score.RIGHT, score.wrong(), score.wrong('no answer'),
                              score.unscorable('no tests')])

  @hypothesis.given(st.integers(0, 20), st.floats(0, 0.99), st.integers(0, 100))
  def test_split(self, count, share, seed):
    items = tuple(range(count))
    shown, held = code.split(items, share, seed)
    self.assertEqual(sorted(shown + held), list(items))
    self.assertEqual((shown, held), code.split(items, share, seed))
    if count >= 2 and share:
      self.assertBetween(len(held), 1, count - 1)
      self.assertLessEqual(abs(len(held) - share * count), 1)
    else:
      self.assertEmpty(held)

  def test_bad_input(self):
    with self.assertRaisesRegex(ValueError, 'share=1'):
      code.split((1, 2), 1, 0)
    with self.assertRaisesRegex(ValueError, 'known are auto, bubblewrap, monty'):
      code.choose('docker')
    for limits in (dict(seconds=0), dict(megabytes=8), dict(calls=-1)):
      with self.assertRaises(ValueError):
        sandbox.Limits(**limits)


if __name__ == '__main__':
  absltest.main()
