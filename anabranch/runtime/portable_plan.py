"""Steps as bytes: what another process needs to run a step as this one would, with errors that name the same lines.

Policy. A step travels as the part of its graph that it needs, in the form that graphs have outside a process: a
GraphDef with the functions that nested bodies become, and beside it what a GraphDef does not hold. These are the names
of feeds and fetches in order, the graph's seed, static shapes that the program has set, and where the program made each
operation, as lines, so that a failure there reads as one here does. Nodes stand in the order of creation, which is the
order of effects, under their names, by which random streams and variables are known: a seeded step has equal bits in
both processes.

The bytes hold no code and nothing that is evaluated when they are read. What a step refers to in its process (functions
that ``tf.py_func`` has registered) does not travel; such an op fails where it is run, and says so.

Layout: the mark and the version of the format, the length of the header, the checksum (CRC-32) of all that follows, the
header as JSON, the GraphDef.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from anabranch.core import errors, sites
from anabranch.core.errors import OpRecord
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import graph_util
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.protos import graph_pb2

MARK = b"ABPLAN"
VERSION = 1
_HEAD = struct.Struct("<6sHQI")
Element = Tensor | Operation


class PortablePlan(NamedTuple):
    """A step that came as bytes, in a graph of its own."""

    graph: Graph
    fetches: tuple[Element, ...]
    feeds: tuple[Tensor, ...]


def pack(fetches: Sequence[Element], feeds: Sequence[Tensor]) -> bytes:
    """The step that computes ``fetches`` from ``feeds``, all of the outermost body of one graph.

    Raises:
        ValueError: there is neither a fetch nor a feed, or the graph is larger than a message can be.
    """
    elements = [*fetches, *feeds]
    if not elements:
        raise ValueError(errors.message("a step without fetches", "at least one tensor or operation", "name a fetch"))
    ops = [element.op if isinstance(element, Tensor) else element for element in elements]
    graph = ops[0].graph
    with graph._lock:
        proto = graph.as_graph_def(add_shapes=True)
        needed = graph_util.extract_sub_graph(proto, sorted({op.name for op in ops}))
        names = {node.name for node in needed.node}
        used = [op for op in graph.root.operations if op.name in names]
        return pack_graph_def(needed, [_name(fetch) for fetch in fetches], [_name(feed) for feed in feeds], graph, used)


def pack_graph_def(
    proto: Any, fetches: Sequence[str], feeds: Sequence[str], graph: Graph, ops: Iterable[Operation]
) -> bytes:
    """The step that computes fetches from feeds, by name (``^name`` for an operation), of a GraphDef.

    Args:
        proto: the graph, or part of one.
        fetches: what is computed.
        feeds: what values are given for.
        graph: what the GraphDef is part of.
        ops: the operations among its nodes, for where the program made them.
    """
    header = {"fetches": list(fetches), "feeds": list(feeds), "seed": graph.seed, **_places(ops)}
    head = json.dumps(header, separators=(",", ":")).encode()
    body = head + proto.SerializeToString(deterministic=True)
    return _HEAD.pack(MARK, VERSION, len(head), zlib.crc32(body)) + body


def unpack(data: bytes) -> PortablePlan:
    """The step that :func:`pack` has written.

    Raises:
        DataLossError: the bytes are not such a step, or not whole. FailedPreconditionError: another version of this
        package has written them. NotImplementedError: the step has ops that this package does not know.
    """
    header, proto = _read(data)
    graph = Graph()
    with graph.as_default():
        import_graph_def(proto, name="")
    graph.seed = header["seed"]
    _restore_places(graph, header)
    return PortablePlan(
        graph,
        tuple([_element(graph, name) for name in header["fetches"]]),
        tuple([_element(graph, name) for name in header["feeds"]]),
    )


def _read(data: bytes) -> tuple[dict[str, Any], Any]:
    if len(data) < _HEAD.size or data[: len(MARK)] != MARK:
        raise errors.DataLossError(None, None, _not_a_plan(f"{len(data)} bytes that do not begin with {MARK!r}"))
    _, version, length, checksum = _HEAD.unpack_from(data)
    if version != VERSION:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"a plan in version {version} of its format",
                f"version {VERSION}, which this process reads",
                "run the same version of anabranch in all processes",
            ),
        )
    begin = _HEAD.size + length
    if zlib.crc32(memoryview(data)[_HEAD.size :]) != checksum:
        raise errors.DataLossError(None, None, _not_a_plan(f"{len(data)} bytes that are damaged"))
    try:
        header = json.loads(data[_HEAD.size : begin])
        proto = graph_pb2.GraphDef.FromString(data[begin:])
    except (ValueError, DecodeError) as problem:
        raise errors.DataLossError(None, None, _not_a_plan(f"{len(data)} bytes that are damaged: {problem}")) from None
    return header, proto


def _not_a_plan(given: str) -> str:
    return errors.message(given, "the whole of what portable_plan.pack has written", "send the plan again")


def _name(element: Element) -> str:
    return element.name if isinstance(element, Tensor) else "^" + element.name


def _element(graph: Graph, name: str) -> Any:
    if name.startswith("^"):
        return graph.get_operation_by_name(name[1:])
    return graph.get_tensor_by_name(name)


# ------------------------------------------------------------------------------------------------------------- places
def _with_bodies(ops: Iterable[Operation], prefix: str = "") -> Iterator[tuple[str, Operation]]:
    """All ops, those in bodies too, each with a key that is the same in the graph that is read."""
    for op in ops:
        key = prefix + op.name
        yield key, op
        for number, use in enumerate(bodies_of(op)):
            yield from _with_bodies(use.body.operations, f"{key}\n{number}\n")


def _places(ops: Iterable[Operation]) -> dict[str, Any]:
    """Where the program made each op, and for which op of the program a gradient op was made: lines by number."""
    lines: dict[sites.Frame, int] = {}
    made_at: dict[str, list[int]] = {}
    originals: dict[str, list[Any]] = {}

    def numbers(op: Any) -> list[int]:
        frames = op.user_site.frames() if isinstance(op.user_site, sites.Site) else []
        return [lines.setdefault(frame, len(lines)) for frame in frames]

    for key, op in _with_bodies(ops):
        made_at[key] = numbers(op)
        if isinstance(op.original, Operation):
            originals[key] = [op.original.name, op.original.type, op.original.device, numbers(op.original)]
    return {"made_at": made_at, "originals": originals, "lines": [list(frame) for frame in lines]}


def _restore_places(graph: Graph, header: dict[str, Any]) -> None:
    lines = [sites.Frame(*line) for line in header["lines"]]

    def site(numbers: Sequence[int]) -> sites.Site:
        return sites.restored([lines[number] for number in numbers])

    for key, op in _with_bodies(graph.root.operations):
        if header["made_at"].get(key):
            op.user_site = site(header["made_at"][key])
        original = header["originals"].get(key)
        if original is not None:
            name, kind, device, numbers = original
            op.original = OpRecord(name, kind, device, str(site(numbers)), None)
