"""Training: optimizers, learning rates, moving averages, clipping, the global step. All are plain graph programs."""

from anabranch.core import api
from anabranch.train import (
    clipping,
    decay,
    graph_files,
    meta_graph,
    moving_averages,
    optimizer,
    optimizers,
    slots,
    step_counter,
)

__all__ = [
    "clipping",
    "decay",
    "graph_files",
    "meta_graph",
    "moving_averages",
    "optimizer",
    "optimizers",
    "slots",
    "step_counter",
]
__getattr__, __dir__ = api.module_attributes("train")
