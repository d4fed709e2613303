"""Training: optimizers, learning rates, moving averages, clipping, the global step, checkpoints, MetaGraphs.

All but the files are plain graph programs.
"""

from anabranch.core import api
from anabranch.train import (
    checkpoint,
    checkpoint_init,
    checkpoint_reader,
    checkpoint_state,
    clipping,
    decay,
    graph_files,
    meta_graph,
    meta_graph_import,
    moving_averages,
    optimizer,
    optimizers,
    saver,
    slots,
    step_counter,
)

__all__ = [
    "checkpoint",
    "checkpoint_init",
    "checkpoint_reader",
    "checkpoint_state",
    "clipping",
    "decay",
    "graph_files",
    "meta_graph",
    "meta_graph_import",
    "moving_averages",
    "optimizer",
    "optimizers",
    "saver",
    "slots",
    "step_counter",
]
__getattr__, __dir__ = api.module_attributes("train")
