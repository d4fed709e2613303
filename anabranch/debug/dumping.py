"""Keeping the tensors of a step in files, as TensorFlow's debugger does, and asking for it by RunOptions.

A tensor that is watched with ``DebugIdentity`` under a ``file://`` URL becomes a file of one event with its value:
``ROOT/_tfdbg_device_,job_localhost,.../NODE_SLOT_DebugIdentity_MICROSECONDS``. The events are TensorFlow's.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.graph.operation import Operation
from anabranch.core.protos.event_pb2 import Event
from anabranch.core.values.tensor_proto import make_tensor_proto
from anabranch.debug import reports
from anabranch.formats.records import framed

IDENTITY = "DebugIdentity"
DEVICE_PREFIX = "_tfdbg_device_"
METADATA_PREFIX = "_tfdbg_"
_SCHEME = "file://"


def device_path(device: str) -> str:
    """The folder of a device: ``/job:localhost/...:0`` becomes ``_tfdbg_device_,job_localhost,..._0``."""
    return DEVICE_PREFIX + device.replace("/", ",").replace(":", "_")


class DumpWatcher:
    """Write what ops give as files.

    Args:
        roots: for each tensor's name the folders that it goes to; ``"*"`` for all others.
        device: the name of the device that stands in the path.
    """

    def __init__(self, roots: dict[str, list[str]], device: str) -> None:
        self._roots = roots
        self._folder = device_path(device)
        self._user_op: Callable[[Operation], Operation] = lambda op: op
        self._last = 0
        self._read: set[str] = set()
        """Names of variables, and of their reads, that the step has written."""

    def begins(self, user_op: Callable[[Operation], Operation]) -> None:
        """Know the ops of the program's graph."""
        self._user_op = user_op
        self._read = set()

    def before(self, op: Operation, operands: Sequence[Any]) -> None:
        """Write the variables among the inputs of an op, and their reads: these do not run as ops of their own."""
        inputs = self._user_op(op).inputs
        if len(inputs) != len(operands):
            return
        for tensor, value in zip(inputs, operands, strict=True):
            sources = [tensor, *(tensor.op.inputs if len(tensor.op.inputs) == 1 else ())]
            if value is None or not sources[-1].dtype._is_ref_dtype:
                continue
            for source in reversed(sources):
                if source.name not in self._read:
                    self._read.add(source.name)
                    self._keep(source.op.name, source.value_index, value)

    def after(self, op: Operation, operands: Sequence[Any], values: Sequence[Any]) -> None:
        """Write the outputs of an op that are watched."""
        user_op = self._user_op(op)
        for tensor, value in reports.outputs_of(op, values):
            self._keep(user_op.name, tensor.value_index, value)

    def _keep(self, node: str, index: int, value: Any) -> None:
        for root in self._roots.get(f"{node}:{index}", self._roots.get("*", ())):
            self._write(root, node, index, value)

    def _write(self, root: str, node: str, index: int, value: Any) -> None:
        self._last = moment = max(time.time_ns() // 1000, self._last + 1)  # each file has a name of its own
        event = Event(wall_time=moment)
        summary = event.summary.value.add(tag=node, node_name=f"{node}:{index}:{IDENTITY}")
        try:
            summary.tensor.CopyFrom(make_tensor_proto(value))
        except (TypeError, ValueError):  # a handle, a list: there is no such tensor in a file
            summary.tensor.dtype = 0
        path = os.path.join(root, self._folder, f"{node}_{index}_{IDENTITY}_{moment}")
        write_event(path, event)


def write_event(path: str, event: Any) -> None:
    """Write a file of one event; its folders are made."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(framed(event.SerializeToString()))


def write_description(root: str, fetches: str, feeds: str, run_count: int, graph_def: bytes) -> None:
    """Write what a dump is of, beside the tensors."""
    moment = time.time_ns() // 1000
    for kind, message in (("fetches_info", fetches), ("feed_keys_info", feeds), ("core_metadata", str(run_count))):
        event = Event(wall_time=moment)
        event.log_message.message = message
        write_event(os.path.join(root, f"{METADATA_PREFIX}{kind}_{moment}"), event)
    event = Event(wall_time=moment, graph_def=graph_def)
    write_event(os.path.join(root, f"{METADATA_PREFIX}graph_{moment}"), event)


def watcher_of(options: Any, device: str) -> DumpWatcher | None:
    """What the debug options of RunOptions ask for; None if they ask for nothing.

    Raises:
        UnimplementedError: for another op than DebugIdentity, or another URL than one of files.
    """
    watches = options.debug_options.debug_tensor_watch_opts
    roots: dict[str, list[str]] = {}
    for watch in watches:
        unknown = [name for name in watch.debug_ops if name.partition("(")[0] != IDENTITY]
        remote = [url for url in watch.debug_urls if not url.startswith(_SCHEME)]
        if unknown or remote:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"a watch of {watch.node_name!r} by {[*unknown, *remote]}",
                    f"{IDENTITY} to a file:// URL",
                    "tf_debug.watch_graph(options, graph, debug_urls=['file://FOLDER'])",
                ),
            )
        name = f"{watch.node_name}:{max(watch.output_slot, 0)}"
        for url in watch.debug_urls:
            folder = url[len(_SCHEME) :]
            if folder not in roots.setdefault(name, []):
                roots[name].append(folder)
    return DumpWatcher(roots, device) if roots else None


hooks.fill("debug_watcher", watcher_of)


def add_debug_tensor_watch(
    run_options: Any,
    node_name: str,
    output_slot: int = 0,
    debug_ops: Any = IDENTITY,
    debug_urls: Any = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
) -> None:
    """Have a run keep an output of an op.

    Args:
        run_options: the RunOptions that the watch is added to.
        node_name: the op's name.
        output_slot: which output.
        debug_ops: ``DebugIdentity``, or a list of such.
        debug_urls: where to, a ``file://`` URL or a list of such.
        tolerate_debug_op_creation_failures: written into the options; nothing is created here that could fail.
        global_step: written into the options, if not negative.
    """
    options = run_options.debug_options
    options.global_step = global_step
    watch = options.debug_tensor_watch_opts.add()
    watch.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures
    watch.node_name = node_name
    watch.output_slot = output_slot
    watch.debug_ops.extend([debug_ops] if isinstance(debug_ops, str) else debug_ops)
    watch.debug_urls.extend(_as_list(debug_urls))


def _as_list(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _watch(
    run_options: Any,
    graph: Any,
    patterns: Sequence[str | None],
    is_wanted: Callable[[list[bool]], bool],
    settings: tuple[Any, ...],
    reset: bool,
) -> None:
    """Watch the tensors of a graph that are wanted, given which of the patterns match their op's name, its type and
    their dtype; a pattern that is None is left out.
    """
    run_options.debug_options.reset_disk_byte_usage = reset
    count = 0
    for op in graph.get_operations():
        for tensor in op.outputs:
            texts = (op.name, op.type, tensor.dtype.name)
            matches = [
                re.match(pattern, text) is not None
                for pattern, text in zip(patterns, texts, strict=True)
                if pattern is not None
            ]
            if is_wanted(matches):
                add_debug_tensor_watch(run_options, op.name, tensor.value_index, *settings)
                count += 1
    if not count:
        raise ValueError(
            errors.message(
                "filters that no tensor of the graph passes", "at least one tensor to watch", "leave the filters out"
            )
        )


def watch_graph(
    run_options: Any,
    graph: Any,
    debug_ops: Any = IDENTITY,
    debug_urls: Any = None,
    node_name_regex_whitelist: str | None = None,
    op_type_regex_whitelist: str | None = None,
    tensor_dtype_regex_whitelist: str | None = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
) -> None:
    """Have a run keep the tensors of a graph that all given patterns match.

    Args:
        run_options: the RunOptions that the watches are added to.
        graph: the graph.
        debug_ops: ``DebugIdentity``.
        debug_urls: where to, a ``file://`` URL or a list of such.
        node_name_regex_whitelist: of names of ops.
        op_type_regex_whitelist: of types of ops.
        tensor_dtype_regex_whitelist: of names of dtypes.
        tolerate_debug_op_creation_failures: written into the options.
        global_step: written into the options.
        reset_disk_byte_usage: written into the options; there is no limit here.

    Raises:
        ValueError: nothing is left to watch.
    """
    patterns = (node_name_regex_whitelist, op_type_regex_whitelist, tensor_dtype_regex_whitelist)
    settings = (debug_ops, debug_urls, tolerate_debug_op_creation_failures, global_step)
    _watch(run_options, graph, patterns, all, settings, reset_disk_byte_usage)


def watch_graph_with_blacklists(
    run_options: Any,
    graph: Any,
    debug_ops: Any = IDENTITY,
    debug_urls: Any = None,
    node_name_regex_blacklist: str | None = None,
    op_type_regex_blacklist: str | None = None,
    tensor_dtype_regex_blacklist: str | None = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
) -> None:
    """Have a run keep the tensors of a graph that none of the given patterns match; arguments as in `watch_graph`.

    Raises:
        ValueError: nothing is left to watch.
    """
    patterns = (node_name_regex_blacklist, op_type_regex_blacklist, tensor_dtype_regex_blacklist)
    settings = (debug_ops, debug_urls, tolerate_debug_op_creation_failures, global_step)
    _watch(run_options, graph, patterns, lambda matches: not any(matches), settings, reset_disk_byte_usage)
