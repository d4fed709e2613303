"""Anabranch: dataflow graphs, state and distribution on XLA."""

from anabranch.core import interrupts as _interrupts

with _interrupts.held():
    from anabranch import _public

__version__ = "0.1.0.dev0"

__getattr__ = _public.find
__dir__ = _public.listing
