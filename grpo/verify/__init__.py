"""Verifiers: (text, reference) -> score, with what cannot be scored kept apart from 0.

`score.py` is the interface. Nothing here knows of models, methods or learning; only the standard
library is imported until a verifier is made.
"""
