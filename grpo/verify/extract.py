r"""Where in a text the answer is: the one place that decides it.

Each function takes what the model wrote, and only that (not the prompt, nor what a tool said), and
returns the answer as text, or None where there is none. All take time linear in the text.
"""

import re

__all__ = ['boxed', 'code_block', 'final_number', 'hashes', 'last_number', 'marked', 'tagged']

_TAG = re.compile(r'<(/?)answer>', re.IGNORECASE)
_BOX = re.compile(r'\\(?:boxed|fbox)\s*\{')
_FENCE = re.compile(r'[ \t]*```[ \t]*([\w+-]*)')
_PYTHON = ('python', 'py', 'python3')
# As much as can belong to one number, so that no part of a malformed one is taken for a whole.
_NUMBER = re.compile(r'(?<![\w.,/^{}])[-+\u2212]?(?:\\?[$€£¥])?[-+\u2212]?'
                     r'(?:\d|\.\d)(?:\{,\}|[.,]?\d)*(?:[eE][-+]?\d+)?(?:/\d+)?(?:\s?\\?%)?'
                     r'(?![\w^/]|[.,]\d|\\?[({\[]|\s*[-+*^/=]\s*(?:\d|\\|[A-Za-z]\b))')
# Before it: an operator, but neither the stars of bold type nor a bare sign, which it took itself.
_OPERATOR = re.compile(r'(?:[-+/^×÷·]|(?<!\*)\*|\w\*\*)\s*$')


def tagged(text: str) -> str | None:
  """Inside the last <answer>...</answer>."""
  begin = inside = None
  for tag in _TAG.finditer(text):
    if not tag[1]:
      begin = tag.end()
    elif begin is not None:
      begin, inside = None, text[begin:tag.start()].strip()
  return inside


def boxed(text: str) -> str | None:
  r"""Inside the last \boxed{...}, with braces balanced; None if that one is never closed."""
  starts = list(_BOX.finditer(text))
  if not starts:
    return None
  begin, depth, i = starts[-1].end(), 1, starts[-1].end()
  while i < len(text):
    if text[i] == '\\':
      i += 1  # an escaped brace is a character
    elif text[i] in '{}':
      depth += 1 if text[i] == '{' else -1
      if not depth:
        return text[begin:i].strip()
    i += 1
  return None


def hashes(text: str) -> str | None:
  """After the last `####`, to the end of its line: the form of GSM8K."""
  _, found, rest = text.rpartition('####')
  return (rest.split('\n', 1)[0].strip() or None) if found else None


def last_number(text: str) -> str | None:
  """The last number that stands by itself: 3 in `it is 3.`, none in `3k`, `n3` or `2 + 3`."""
  found = list(_NUMBER.finditer(text))
  if not found or _OPERATOR.search(text[:found[-1].start()][-8:]):
    return None
  return found[-1][0].strip()


def marked(text: str) -> str | None:
  """The answer that the text marks as such: by a tag, a box, or hashes, in this order."""
  for extract in (tagged, boxed, hashes):
    answer = extract(text)
    if answer:
      return answer
  return None


def final_number(text: str) -> str | None:
  """The marked answer, or else the last number."""
  return marked(text) or last_number(text)


def code_block(text: str) -> str | None:
  """The last fenced block of Python, or else the last unlabelled one; None without a fence."""
  labelled = plain = None
  label, body = None, []
  for line in text.splitlines(keepends=True):
    fence = _FENCE.match(line)
    if label is None:
      label, body = (fence[1].lower(), []) if fence else (None, [])
    elif fence and not line.strip(' \t\r\n`'):
      if label in _PYTHON:
        labelled = ''.join(body)
      elif not label:
        plain = ''.join(body)
      label = None
    else:
      body.append(line)
  return plain if labelled is None else labelled
