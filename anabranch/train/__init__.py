"""Training: optimizers, learning rates, moving averages, clipping, the global step, checkpoints, MetaGraphs.

All but the files are plain graph programs.
"""

from anabranch.core.contract import api
from anabranch.train import (
    basic_session_run_hooks,
    batching,
    clipping,
    cluster_spec,
    coordinator,
    decay,
    device_setter,
    graph_files,
    input_producers,
    loss_scaling,
    meta_graph,
    meta_graph_import,
    monitored_session,
    moving_averages,
    optimizer,
    optimizers,
    session_manager,
    session_run_hook,
    slots,
    step_counter,
    supervisor,
    sync_replicas,
    warm_starting,
)
from anabranch.train.saving import (
    checkpoint,
    checkpoint_init,
    checkpoint_reader,
    checkpoint_state,
    python_state,
    saver,
    vocabulary_changes,
)

__all__ = [
    "basic_session_run_hooks",
    "batching",
    "checkpoint",
    "checkpoint_init",
    "checkpoint_reader",
    "checkpoint_state",
    "clipping",
    "cluster_spec",
    "coordinator",
    "decay",
    "device_setter",
    "graph_files",
    "input_producers",
    "loss_scaling",
    "meta_graph",
    "meta_graph_import",
    "monitored_session",
    "moving_averages",
    "optimizer",
    "optimizers",
    "python_state",
    "saver",
    "session_manager",
    "session_run_hook",
    "slots",
    "step_counter",
    "supervisor",
    "sync_replicas",
    "vocabulary_changes",
    "warm_starting",
]
__getattr__, __dir__ = api.module_attributes("train")
