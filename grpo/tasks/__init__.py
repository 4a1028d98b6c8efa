"""Tasks. `__all__` is the list of names that a config may choose; each module has a `make`.

`TEXT` are those that are asked in the words of a language model, and need one.
"""

from grpo.tasks import arithmetic
from grpo.tasks import countdown
from grpo.tasks import horizon
from grpo.tasks import keychain
from grpo.tasks import ladder
from grpo.tasks import line
from grpo.tasks import meeting
from grpo.tasks import programs
from grpo.tasks import sokoban
from grpo.tasks import triage

__all__ = ['arithmetic', 'countdown', 'programs', 'ladder', 'horizon', 'keychain', 'sokoban',
           'line', 'meeting', 'triage']

TEXT = ('chat_sums', 'text')
