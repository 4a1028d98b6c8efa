"""Settings of every test: four fake CPU devices, and JAX's own checks turned to errors.

They are set before any backend starts, hence at import. A test that needs other settings starts a
process of its own.
"""

import os

import matplotlib

matplotlib.use('Agg')

import jax

jax.config.update('jax_platforms', os.environ.get('JAX_PLATFORMS', 'cpu'))
jax.config.update('jax_num_cpu_devices', 4)
# An implicit [G] against [P, G] is a bug that broadcasts silently; a reused key is one that
# correlates what should be independent; raw uint32 keys escape that second check.
jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_debug_key_reuse', True)
jax.config.update('jax_legacy_prng_key', 'error')


def pytest_configure(config):
  config.addinivalue_line('markers', 'slow: learning and script tests; skipped by the short leg')
  config.addinivalue_line('filterwarnings', 'error::DeprecationWarning')
