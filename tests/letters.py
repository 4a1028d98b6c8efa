"""A tokenizer of letters and a grader that remembers, for tests of the task `text`."""

import numpy as np

from grpo.tasks import text

LETTERS = '_.?abcdx'  # of the tokenizer below: padding, the stop, and what is written
SIZE = len(LETTERS)


class Letters:
  """A tokenizer whose tokens are letters; `.` ends an answer."""
  stops = (1,)

  def encode(self, words):
    return [LETTERS.index(x) for x in words]

  def decode(self, ids):
    assert isinstance(ids, np.ndarray), type(ids)  # an array of JAX would ask it for something
    return ''.join(LETTERS[i] for i in ids if i not in self.stops)

  def render(self, messages):
    return ''.join(x['content'] for x in messages)

  def texts(self, size):
    return tuple(LETTERS[:size])


class Grader:
  """Right is the letter asked for; `x` cannot be scored. Remembers what it was asked."""

  def __init__(self):
    self.asked, self.wait = [], None
    self.questions, self.answers = ('a?', 'b?', 'cc?', 'd?'), ('a', 'b', 'c', 'd')
    self.held = (False, False, True, False)

  def grade(self, texts, rows):
    self.asked.append(list(zip(texts, rows, strict=True)))
    if self.wait is not None:
      self.wait()
    right = np.array([self.answers[row] in x for x, row in zip(texts, rows)], np.float32)
    alone = np.array([len(x) == 1 for x in texts])
    return right, right * alone, np.array(['x' not in x for x in texts])


def made(grader, cut='wrong', action=3):
  return text.make(tokenizer=Letters(), size=SIZE, problems=grader, action=action, cut=cut)
