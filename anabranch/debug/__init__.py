"""Looking into steps: stop at an op, find the first NaN, keep every tensor of a step, browse what was kept.

A step that is looked into runs op by op (:mod:`anabranch.runtime.watching`) with the values, effects and errors of any
other step. ``tensorflow.python.debug`` is this package.
"""

from anabranch.debug import model_profile
from anabranch.debug.dump_dir import (
    DebugDumpDir,
    DebugTensorDatum,
    load_tensor_from_event,
    load_tensor_from_event_file,
)
from anabranch.debug.dumping import add_debug_tensor_watch, watch_graph, watch_graph_with_blacklists
from anabranch.debug.numerics import disable_check_numerics, enable_check_numerics, has_inf_or_nan
from anabranch.debug.step_debugger import StepDebugger, Stop
from anabranch.debug.wrappers import (
    DumpingDebugHook,
    DumpingDebugWrapperSession,
    GrpcDebugHook,
    GrpcDebugWrapperSession,
    LocalCLIDebugHook,
    LocalCLIDebugWrapperSession,
    TensorBoardDebugHook,
    TensorBoardDebugWrapperSession,
    WatchOptions,
)

__all__ = [
    "DebugDumpDir",
    "DebugTensorDatum",
    "DumpingDebugHook",
    "DumpingDebugWrapperSession",
    "GrpcDebugHook",
    "GrpcDebugWrapperSession",
    "LocalCLIDebugHook",
    "LocalCLIDebugWrapperSession",
    "StepDebugger",
    "Stop",
    "TensorBoardDebugHook",
    "TensorBoardDebugWrapperSession",
    "WatchOptions",
    "add_debug_tensor_watch",
    "disable_check_numerics",
    "enable_check_numerics",
    "has_inf_or_nan",
    "load_tensor_from_event",
    "load_tensor_from_event_file",
    "model_profile",
    "watch_graph",
    "watch_graph_with_blacklists",
]
