"""Anabranch: dataflow graphs, state and distribution on XLA."""

__version__ = "0.1.0.dev0"
