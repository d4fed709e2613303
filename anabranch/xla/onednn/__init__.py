"""Convolutions by oneDNN inside XLA's programs on CPUs: an extra that stands in for ``jax.lax`` where it is faster.

From the bottom: ``library`` finds and loads oneDNN; ``primitives`` makes of a convolution what oneDNN is to run;
``frames`` is the layout of XLA's FFI; ``handler`` is what XLA calls; ``convolutions`` holds the three JAX primitives,
``choice`` the table that says which convolutions they take. docs/notes/0022-onednn.md has figures and reasons.
"""
