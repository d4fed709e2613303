"""Recurrent networks: cells, and their loops over time."""

from anabranch.rnn import cells, contrib_cells, dynamic, static, wrappers

__all__ = ["cells", "contrib_cells", "dynamic", "static", "wrappers"]
