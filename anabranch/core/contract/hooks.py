"""Slots that upper layers fill when they load, so that layers point down and one file lists every exception.

Each slot is a module-level function variable with a default that says what is missing. A test checks that importing the
public package fills each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_loader: list[Callable[[], None]] = []  # filled by the package's start-up


def set_loader(load: Callable[[], None]) -> None:
    """Register what imports the parts that fill the slots, called when an empty one is used for the first time."""
    _loader[:] = [load]


def _empty(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        for load in _loader:
            load()
        if _slots[name] is not call:
            return _slots[name](*args, **kwargs)
        raise RuntimeError(
            f"the slot {name!r} of anabranch.core.contract.hooks is empty; import anabranch instead of its core"
        )

    call.is_empty = True  # type: ignore[attr-defined]
    return call


_slots: dict[str, Callable[..., Any]] = {}
NAMES = {
    "evaluate": "session: (tensor or op, feed_dict, graph, session) -> value, for Tensor.eval and Operation.run",
    "get_item": "ops.operators: (tensor, key) -> tensor, for x[1:, tf.newaxis]",
    "node_def": "core.graph_def: (operation) -> NodeDef",
    "op_def": "core.graph_def: (definition) -> OpDef",
    "tensor_attr": "core.graph_def: (array, its dtype or None) -> TensorProto, for Operation.get_attr",
    "attr_from_proto": "core.graph_def: (AttrValue) -> stored attribute value",
    "control_flow_gradient": "autodiff.control_flow: (op, grads) -> a gradient or None per input, for ops with bodies",
    "gradient_calls": "autodiff.function_gradients: (GraphDef) -> one whose gradients of functions are calls",
    "make_twins": "rewrite.view_twins: (graph, ys, xs) -> None, before gradients walk through version 1",
    "write_checkpoint": "formats.checkpoints: (version, prefix, [(name, slice, dtype, array)], go_on)",
    "read_checkpoint": "formats.checkpoints: (prefix, [(name, slice, dtype)]) -> list of arrays",
    "merge_checkpoints": "formats.bundle: (prefixes, target, delete_old_dirs, allow_missing_files)",
    "open_bytes": "formats.records: (path, compression, buffer size) -> functions that read (inflated) bytes, close it",
    "record_stream": "formats.records: (read, path, torn end, most bytes) -> a stream of TFRecords: next(), offset",
    "record_writer": "formats.tfrecord: (path, compression) -> what writes TFRecords: write(), a context manager",
    "bundle_writer": "formats.bundle: (prefix) -> a checkpoint to be written: add(), commit(), abandon()",
    "open_bundle": "formats.checkpoints: (prefix) -> a checkpoint open for reading: tensors, read(), close()",
    "compression_name": "formats.tfrecord: (TFRecordOptions, a compression's name or number, None) -> its name or ''",
    "with_gradient": "autodiff.registry: (make, op type, rule) -> the op that make() makes, with a rule of its own",
    "event_writer": "summary.event_file: (logdir, max_queue, flush_secs, filename_suffix) -> a writer of events",
    "debug_watcher": "debug.dumping: (RunOptions, device name) -> what writes the tensors that are watched, or None",
    "session_worker": "cluster: (target, SessionOptions, ConfigProto or None) -> what runs a session's steps there",
    "reset_target": "cluster: (target, containers, ConfigProto or None) -> None, for Session.reset",
    "graph_def": "core.graph_def: (graph, from_version, add_shapes) -> GraphDef",
    "convolve_on_host": "xla.onednn: (kind, a, b, axes, groups, channels first) -> an array, or None",
    "pool_on_host": "xla.onednn: (kind, shape of the images, axes, *operands) -> an array, or None",
    "apply_in_replicas": "distribute: (optimizer, pairs, global step, name) -> an update, NotImplemented if alone",
}
for _name in NAMES:
    _slots[_name] = _empty(_name)


def fill(name: str, function: Callable[..., Any]) -> None:
    """Fill a slot; KeyError for a name that is not in :data:`NAMES`."""
    if name not in NAMES:
        raise KeyError(f"no slot {name!r}; slots: {sorted(NAMES)}")
    _slots[name] = function


def unfilled() -> list[str]:
    """Names of the slots nobody has filled."""
    return [name for name, function in _slots.items() if getattr(function, "is_empty", False)]


def evaluate(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["evaluate"](*args)


def get_item(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["get_item"](*args)


def node_def(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["node_def"](*args)


def op_def(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["op_def"](*args)


def tensor_attr(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["tensor_attr"](*args)


def attr_from_proto(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["attr_from_proto"](*args)


def gradient_calls(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["gradient_calls"](*args)


def graph_def(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["graph_def"](*args)


def control_flow_gradient(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["control_flow_gradient"](*args)


def make_twins(*args: Any) -> None:
    """See :data:`NAMES`."""
    _slots["make_twins"](*args)


def convolve_on_host(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["convolve_on_host"](*args)


def pool_on_host(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["pool_on_host"](*args)


def event_writer(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["event_writer"](*args)


def write_checkpoint(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["write_checkpoint"](*args)


def read_checkpoint(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["read_checkpoint"](*args)


def merge_checkpoints(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["merge_checkpoints"](*args)


def open_bytes(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["open_bytes"](*args)


def record_stream(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["record_stream"](*args)


def record_writer(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["record_writer"](*args)


def bundle_writer(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["bundle_writer"](*args)


def open_bundle(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["open_bundle"](*args)


def compression_name(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["compression_name"](*args)


def with_gradient(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["with_gradient"](*args)


def debug_watcher(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["debug_watcher"](*args)


def session_worker(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["session_worker"](*args)


def reset_target(*args: Any) -> None:
    """See :data:`NAMES`."""
    _slots["reset_target"](*args)


def apply_in_replicas(*args: Any) -> Any:
    """See :data:`NAMES`."""
    return _slots["apply_in_replicas"](*args)
