r"""Numbers as people write them, compared exactly.

Read are: 1234, +1234, 1,234, 1 234, 1{,}234, $1,234.00, \$1234, 1234.0, .5, 1e3, 6/2, \frac{6}{2},
\frac12, 12%, x = 3 and **3**. Commas and spaces must part groups of three: 12,34 is no number, and
1.234 is not 1234. A percentage equals only a percentage. What is not read completely is not read
at all: `3k` and `3 or 4` are not 3.
"""

from collections.abc import Callable
import fractions
import re

from grpo.verify import extract as extracts
from grpo.verify import score

__all__ = ['parse', 'read', 'verify']

MAX_LENGTH = 200   # characters of a number
MAX_EXPONENT = 400  # beyond that of a float; 1e999999999 would take all memory
_WRAPPED = re.compile(r'(\*\*|__|\*|`|\$\$|\$)(.+)\1|\\\((.+)\\\)|\\\[(.+)\\\]', re.DOTALL)
_NAMED = re.compile(r'(?:\\?[A-Za-z]\w?)\s*=\s*(.+)', re.DOTALL)
_GROUPS = re.compile(r'\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?=\.|$)')
_DECIMAL = re.compile(r'(?:\d+\.?\d*|\.\d+)(?:[eE]([-+]?\d+))?')
_FRACTION = re.compile(r'\\[dt]?frac\s*(?:\{([^{}]+)\}|(\d))\s*(?:\{([^{}]+)\}|(\d))')


def _plain(text):
  """A decimal without sign, or None."""
  groups = _GROUPS.match(text)
  if groups:
    text = re.sub('[ ,]', '', groups[0]) + text[groups.end():]
  found = _DECIMAL.fullmatch(text)
  if not found or (found[1] and abs(int(found[1])) > MAX_EXPONENT):
    return None
  return fractions.Fraction(text)


def _signed(text):
  """[sign] [currency] [sign] number or quotient, or None."""
  text = text.strip()
  sign = 1
  found = re.match(r'([-+]?)\s*(?:\\?[$€£¥]\s*)?([-+]?)', text)
  if found[1] and found[2]:
    return None
  if '-' in (found[1], found[2]):
    sign = -1
  text = text[found.end():].strip()
  quotient = _FRACTION.fullmatch(text)
  parts = ([quotient[1] or quotient[2], quotient[3] or quotient[4]] if quotient
           else text.split('/'))
  if len(parts) > 2:
    return None
  numbers = [(_signed if quotient else _plain)(part.strip()) for part in parts]
  if None in numbers or (len(numbers) == 2 and not numbers[1]):
    return None
  return sign * (numbers[0] / numbers[1] if len(numbers) == 2 else numbers[0])


def parse(text: str) -> tuple[fractions.Fraction, str] | None:
  """(value, '%' or ''), or None for what is not one number and nothing else."""
  text = text.strip()
  if len(text) > MAX_LENGTH or not text.isprintable():
    return None
  text = text.replace('\u2212', '-').replace('{,}', ',').replace('\u202f', ' ')
  text = text.replace('\u00a0', ' ')
  for _ in range(4):  # bold around a box's dollar signs, at most
    before = text
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped:
      text = (wrapped[2] or wrapped[3] or wrapped[4]).strip()
    named = _NAMED.fullmatch(text)
    if named:
      text = named[1].strip()
    if text.endswith('.'):
      text = text[:-1].strip()
    if text == before:
      break
  unit = '%' if text.endswith('%') else ''
  value = _signed(re.sub(r'\s*\\?%$', '', text))
  return None if value is None else (value, unit)


def read(reference: str | int | float) -> tuple[fractions.Fraction, str]:
  """The number of a reference. Raises ValueError if it has none."""
  number = None if reference is None else parse(str(reference))
  if number is None:
    raise ValueError(f'no number: {reference!r}')
  return number


def verify(text: str, reference: str | int | float, *,
           extract: Callable[[str], str | None] = extracts.final_number,
           tolerance: float = 0.0) -> score.Score:
  """1 if the answer's number is the reference's, within `tolerance` (absolute).

  The whole text is tried first, so that a bare `1 234` is one number; then what `extract` finds.
  """
  try:
    want, unit = read(reference)
  except ValueError:
    return score.unscorable('no number in the reference')
  answer = extract(text)
  if answer is None and not parse(text):
    return score.wrong('no answer')
  got = parse(text) or parse(answer)
  if got is None:
    return score.wrong('no number')
  near = abs(got[0] - want) <= fractions.Fraction(tolerance)
  return score.RIGHT if near and got[1] == unit else score.wrong()
