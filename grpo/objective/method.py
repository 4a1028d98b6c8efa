"""A method is one choice for each slot; the composition is this file and nothing else.

`credit` turns a scored rollout into advantages (data: outside the gradient). `policy_loss` and
`value_loss` are what is differentiated. Micro-batching and sharding are exact because every divisor
is counted once, over the whole optimiser batch, into `weights_PGT`: a loss is sum(weights * x).
"""
