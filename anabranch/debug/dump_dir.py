"""Reading what a step has left in a folder: each tensor with its op, its output and when it was there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.protos.event_pb2 import Event
from anabranch.core.protos.graph_pb2 import GraphDef
from anabranch.core.values.tensor_proto import make_ndarray
from anabranch.debug.dumping import DEVICE_PREFIX, METADATA_PREFIX
from anabranch.formats.records import read_records


def _event_of(path: str) -> Any:
    for record in read_records(path):
        return Event.FromString(record)
    raise errors.DataLossError(
        None,
        None,
        errors.message(f"{path!r} without a record", "a file of one event", "run the step with its watches again"),
    )


def load_tensor_from_event(event: Any) -> Any:
    """The array of an event; None for a value that no file can hold, such as a handle."""
    proto = event.summary.value[0].tensor
    return make_ndarray(proto) if proto.dtype else None


def load_tensor_from_event_file(event_file_path: str) -> Any:
    """The array that a file of a dump holds."""
    return load_tensor_from_event(_event_of(event_file_path))


class DebugTensorDatum:
    """A tensor of a dump.

    Args:
        dump_root: the folder of the dump.
        debug_dump_rel_path: the path of the tensor's file in it, which says all but the value.
    """

    def __init__(self, dump_root: str, debug_dump_rel_path: str) -> None:
        path = debug_dump_rel_path.replace(os.sep, "/")
        folder, _, rest = path.partition("/")
        if not folder.startswith(DEVICE_PREFIX):
            folder, rest = "", path
        parts = rest.rsplit("_", 3)
        if len(parts) != 4 or not (parts[1].isdigit() and parts[3].isdigit()):
            raise ValueError(
                errors.message(f"{debug_dump_rel_path!r}", "a file name NODE_SLOT_OP_MICROSECONDS", "a file of a dump")
            )
        self.file_path = os.path.join(dump_root, debug_dump_rel_path)
        self.device_name = _device_name(folder)
        self.node_name = parts[0]
        self.output_slot = int(parts[1])
        self.debug_op = parts[2]
        self.timestamp = int(parts[3])
        """Microseconds since 1970."""

    @property
    def tensor_name(self) -> str:
        """Name of the tensor."""
        return f"{self.node_name}:{self.output_slot}"

    @property
    def watch_key(self) -> str:
        """Name of the tensor and of the op that kept it."""
        return f"{self.tensor_name}:{self.debug_op}"

    @property
    def dump_size_bytes(self) -> int | None:
        """Size of the file; None if it is gone."""
        try:
            return os.path.getsize(self.file_path)
        except OSError:
            return None

    def get_tensor(self) -> Any:
        """The value, read from its file."""
        return load_tensor_from_event_file(self.file_path)

    def __str__(self) -> str:
        return f"{{DebugTensorDatum ({self.device_name}) {self.tensor_name} @ {self.debug_op} @ {self.timestamp}}}"

    __repr__ = __str__


def _device_name(folder: str) -> str:
    if not folder:
        return ""
    names = []
    for piece in folder[len(DEVICE_PREFIX) :].split(","):
        kind, _, rest = piece.partition("_")
        if kind == "device":
            rest = ":".join(rest.rsplit("_", 1))
        names.append(f"{kind}:{rest}" if rest else kind)
    return "/".join(names)


class DebugDumpDir:
    """A dump: all tensors that steps have left in a folder, in the order of time.

    Args:
        dump_root: the folder.
        partition_graphs: GraphDefs of what has run; the graph in the folder if None.
        validate: raise if the folder names a tensor of an op that the graph does not have.

    Raises:
        OSError: the folder is not there. ValueError: a tensor of no op of the graph.

    Example:
        >>> import anabranch as tf
        >>> import tempfile
        >>> from anabranch import debug
        >>> root = tempfile.mkdtemp()
        >>> y = tf.square(tf.constant([1.0, 2.0]), name="y")
        >>> with tf.Session() as session:
        ...     watched = debug.DumpingDebugWrapperSession(session, root, log_usage=False)
        ...     _ = watched.run(y)
        >>> dump = debug.DebugDumpDir(watched.last_dump)
        >>> dump.get_tensors("y", 0, "DebugIdentity")
        [array([1., 4.], dtype=float32)]
    """

    def __init__(self, dump_root: str, partition_graphs: Any = None, validate: bool = True) -> None:
        if not os.path.isdir(dump_root):
            raise OSError(f"Dump root directory {dump_root} does not exist")
        self._root = dump_root
        self._data: list[DebugTensorDatum] = []
        described: dict[str, list[Any]] = {}
        for folder, _, files in os.walk(dump_root):
            for name in files:
                relative = os.path.relpath(os.path.join(folder, name), dump_root)
                if folder == dump_root and name.startswith(METADATA_PREFIX):
                    kind = name[len(METADATA_PREFIX) :].rpartition("_")[0]
                    described.setdefault(kind, []).append(_event_of(os.path.join(dump_root, name)))
                else:
                    self._data.append(DebugTensorDatum(dump_root, relative))
        self._data.sort(key=lambda datum: (datum.timestamp, datum.node_name))
        self._described = described
        self._python_graph: Any = None
        self._graph = self._merged(partition_graphs)
        self._nodes = {node.name: node for node in self._graph.node}
        if validate and self._nodes:
            for datum in self._data:
                if datum.node_name not in self._nodes:
                    raise ValueError(
                        f"Node name '{datum.node_name}' is not found in partition graphs of device {datum.device_name}."
                    )

    def _merged(self, graphs: Any) -> Any:
        merged = GraphDef()
        if graphs is None:
            graphs = [GraphDef.FromString(event.graph_def) for event in self._described.get("graph", [])[-1:]]
        for graph in graphs:
            merged.node.extend(graph.node)
        return merged

    # --------------------------------------------------------------------------------------------------------- contents
    @property
    def dumped_tensor_data(self) -> list[DebugTensorDatum]:
        """The tensors, in the order of time."""
        return list(self._data)

    @property
    def size(self) -> int:
        """How many tensors there are."""
        return len(self._data)

    @property
    def t0(self) -> int | None:
        """When the first one was there, in microseconds since 1970; None for an empty dump."""
        return self._data[0].timestamp if self._data else None

    @property
    def run_fetches_info(self) -> Any:
        """What was fetched: a text, or a list of them for several runs; None if that is not known."""
        return self._message("fetches_info")

    @property
    def run_feed_keys_info(self) -> Any:
        """What was fed, likewise."""
        return self._message("feed_keys_info")

    def _message(self, kind: str) -> Any:
        texts = [event.log_message.message for event in self._described.get(kind, ())]
        return None if not texts else texts[0] if len(texts) == 1 else texts

    def find(
        self,
        predicate: Callable[[DebugTensorDatum, Any], bool],
        first_n: int = 0,
        device_name: str | None = None,
        exclude_node_names: str | None = None,
    ) -> list[DebugTensorDatum]:
        """The tensors that a predicate of (datum, array) is true of, in the order of time.

        Args:
            predicate: such as :func:`anabranch.debug.has_inf_or_nan`.
            first_n: stop at this many, if positive.
            device_name: only those of this device.
            exclude_node_names: a regular expression of names of ops that are passed over.
        """
        matching: list[DebugTensorDatum] = []
        for datum in self._of_device(device_name):
            if exclude_node_names and re.match(exclude_node_names, datum.node_name):
                continue
            if predicate(datum, datum.get_tensor()):
                matching.append(datum)
                if 0 < first_n <= len(matching):
                    break
        return matching

    def _of_device(self, device_name: str | None) -> list[DebugTensorDatum]:
        if device_name is None:
            return self._data
        if device_name not in self.devices():
            raise ValueError(f"There is no device named '{device_name}' in this DebugDumpDir.")
        return [datum for datum in self._data if datum.device_name == device_name]

    def _select(self, node: str, slot: int, debug_op: str, device_name: str | None) -> list[DebugTensorDatum]:
        key = f"{node}:{slot}:{debug_op}"
        selected = [datum for datum in self._of_device(device_name) if datum.watch_key == key]
        if not selected:
            raise ValueError(f"Watch key '{key}' does not exist in the debug dump of device {device_name}")
        return selected

    def get_tensors(self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None) -> list[Any]:
        """The values of an output of an op, one for each time that it ran."""
        return [datum.get_tensor() for datum in self._select(node_name, output_slot, debug_op, device_name)]

    def get_tensor_file_paths(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[str]:
        """Their files."""
        return [datum.file_path for datum in self._select(node_name, output_slot, debug_op, device_name)]

    def get_rel_timestamps(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[int]:
        """When they were there, in microseconds after the first tensor of the dump."""
        start = self._data[0].timestamp
        return [datum.timestamp - start for datum in self._select(node_name, output_slot, debug_op, device_name)]

    def get_dump_sizes_bytes(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[int | None]:
        """How large their files are."""
        return [datum.dump_size_bytes for datum in self._select(node_name, output_slot, debug_op, device_name)]

    def debug_watch_keys(self, node_name: str, device_name: str | None = None) -> list[str]:
        """The watch keys of an op's tensors."""
        keys = [datum.watch_key for datum in self._of_device(device_name) if datum.node_name == node_name]
        return list(dict.fromkeys(keys))

    def watch_key_to_data(self, debug_watch_key: str, device_name: str | None = None) -> list[DebugTensorDatum]:
        """The tensors of a watch key."""
        return [datum for datum in self._of_device(device_name) if datum.watch_key == debug_watch_key]

    # ------------------------------------------------------------------------------------------------------------ graph
    def devices(self) -> list[str]:
        """The devices whose tensors are there."""
        return list(dict.fromkeys(datum.device_name for datum in self._data))

    def set_python_graph(self, python_graph: Any) -> None:
        """Give the graph, so that :meth:`node_traceback` finds the lines that made its ops."""
        self._python_graph = python_graph

    @property
    def python_graph(self) -> Any:
        """The graph that was given."""
        return self._python_graph

    def partition_graphs(self) -> list[Any]:
        """The GraphDef that has run, in a list.

        Raises:
            LookupError: it is not known.
        """
        if not self._nodes:
            raise LookupError("No partition graphs have been loaded.")
        return [self._graph]

    reconstructed_non_debug_partition_graphs = partition_graphs

    def nodes(self, device_name: str | None = None) -> list[str]:
        """Names of all ops of the graph that has run."""
        del device_name  # one graph has run
        self.partition_graphs()
        return list(self._nodes)

    def node_exists(self, node_name: str, device_name: str | None = None) -> bool:
        """Whether the graph has an op of this name."""
        return node_name in self.nodes(device_name)

    def _node(self, name: str) -> Any:
        self.partition_graphs()
        if name not in self._nodes:
            raise ValueError(f"Node '{name}' does not exist in partition graphs.")
        return self._nodes[name]

    def node_op_type(self, node_name: str, device_name: str | None = None) -> str:
        """The type of an op."""
        del device_name
        return str(self._node(node_name).op)

    def node_attributes(self, node_name: str, device_name: str | None = None) -> Any:
        """The attributes of an op, as its NodeDef has them."""
        del device_name
        return self._node(node_name).attr

    def node_inputs(self, node_name: str, is_control: bool = False, device_name: str | None = None) -> list[str]:
        """Names of the ops whose outputs an op takes, or of those that it waits for."""
        del device_name
        inputs = [name for name in self._node(node_name).input if name.startswith("^") == is_control]
        return [_op_name(name) for name in inputs]

    def node_recipients(self, node_name: str, is_control: bool = False, device_name: str | None = None) -> list[str]:
        """Names of the ops that take an op's outputs, or that wait for it."""
        del device_name
        self._node(node_name)
        return [
            node.name
            for node in self._graph.node
            if any(name.startswith("^") == is_control and _op_name(name) == node_name for name in node.input)
        ]

    def transitive_inputs(
        self,
        node_name: str,
        include_control: bool = True,
        include_reversed_ref: bool = False,
        device_name: str | None = None,
    ) -> list[str]:
        """Names of all ops that an op follows from, nearest first.

        Args:
            node_name: the op's name.
            include_control: follow control edges, too.
            include_reversed_ref: must be False; refs are read where they are used.
            device_name: not needed, as one graph has run.
        """
        if include_reversed_ref:
            raise errors.UnimplementedError(
                None, None, errors.message("include_reversed_ref=True", "include_reversed_ref=False", "leave it out")
            )
        del device_name
        seen: dict[str, None] = {}
        waiting = [self._node(node_name)]
        while waiting:
            for name in waiting.pop(0).input:
                inner = _op_name(name)
                if (include_control or not name.startswith("^")) and inner not in seen:
                    seen[inner] = None
                    waiting.append(self._node(inner))
        return list(seen)

    def node_device(self, node_name: str) -> str:
        """The device that an op ran on."""
        for datum in self._data:
            if datum.node_name == node_name:
                return datum.device_name
        return str(self._node(node_name).device)

    def node_traceback(self, element_name: str) -> list[Any]:
        """The lines that made an op, outermost first.

        Raises:
            LookupError: :meth:`set_python_graph` was not called.
        """
        if self._python_graph is None:
            raise LookupError("Python graph is not available for traceback lookup")
        name = _op_name(element_name)
        try:
            return list(self._python_graph.get_operation_by_name(name).traceback)
        except KeyError:
            raise KeyError(f"Cannot find node '{name}' in Python graph") from None


def _op_name(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]
