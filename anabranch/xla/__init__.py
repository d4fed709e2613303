"""From ops to XLA: traced kernels, programs, and the executables that run them.

The only packages that import jax are this one and those above.
"""
