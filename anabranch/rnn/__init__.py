"""Recurrent networks: cells, and their loops over time."""

from anabranch.rnn import block_cells, cells, contrib_cells, dynamic, stacks, static, wrappers

__all__ = ["block_cells", "cells", "contrib_cells", "dynamic", "stacks", "static", "wrappers"]
