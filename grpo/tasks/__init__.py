"""Tasks. `__all__` is the list of names that a config may choose; each module has a `make`."""

from grpo.tasks import arithmetic, horizon, programs

__all__ = ['arithmetic', 'programs', 'horizon']
