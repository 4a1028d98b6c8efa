"""grpo: where group-relative policy optimisation stops working, and what fixes it."""

__version__ = '0.1.0'
