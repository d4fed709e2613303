"""Convolutions by oneDNN on CPUs, inside XLA's programs and interpreted: an extra that stands in where it is faster.

From the bottom: ``library`` finds and loads oneDNN; ``primitives`` makes of a convolution what oneDNN is to run;
``frames`` is the layout of XLA's FFI; ``handler`` is what XLA calls; ``convolutions`` holds the three JAX primitives,
``choice`` the table that says which convolutions they take; ``pooling`` describes maxima and averages over windows;
``host_calls`` computes both for the interpreter.
docs/notes/0022-onednn.md has figures and reasons.
"""

from anabranch.xla.onednn import host_calls as host_calls  # fills a slot of core/contract/hooks.py
