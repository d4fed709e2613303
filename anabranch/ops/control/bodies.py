"""What conditionals, loops and functions of the public interface have in common: bodies from Python functions.

A Python function is called once, while the graph is built; the operations it makes go into a nested body. Errors name
the function with its line, next to the line of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors, sites
from anabranch.core.graph import composites
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.random_seed import counted_as
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graphdef.function_def import implied_control_outputs
from anabranch.core.values import dtypes, nest


def told(fn: Any) -> str:
    """How messages name a function of the user: its name, and where it stands."""
    code = getattr(fn, "__code__", None)
    inner = getattr(fn, "func", None)  # functools.partial
    if code is None and inner is not None:
        return told(inner)
    name = getattr(fn, "__name__", type(fn).__name__)
    return f'{name} (File "{code.co_filename}", line {code.co_firstlineno})' if code is not None else name


def call_site() -> Any:
    """The user's line that is being run."""
    return sites.capture(2)


def local(body: Body, tensor: Tensor) -> Tensor:
    """What a body returns for a tensor: captured if it is of another body, read if it is a reference."""
    if tensor.op.body is not body:
        place = body.name.rpartition("/")[0]
        tensor = body.capture(tensor, f"{place}/{'NextIteration' if body.of_loop else 'Merge'}")
    if tensor.dtype.is_ref:
        with counted_as(0):  # TensorFlow's comes in as what was read
            tensor = build("Identity", tensor)
    return tensor


def as_output(value: Any, preferred: dtypes.DType | None = None, done: bool = True) -> Any:
    """A leaf of what a branch or loop body returned: a tensor, a composite, or None.

    An operation becomes the boolean ``done``, which is there once it has run.
    """
    if value is None or composites.is_composite(value):
        return value
    if isinstance(value, Operation):
        with value.graph.control_dependencies([value]):
            return constant(done, dtypes.bool_, name="done")
    if getattr(value, "_is_sparse_value", False) or type(value).__name__ == "SparseTensorValue":
        return SparseTensor.from_value(value)
    return convert_to_tensor(value, preferred_dtype=preferred)


class Built:
    """A body and what its function returned."""

    def __init__(self, body: Body, result: Any) -> None:
        self.body = body
        self.result = result
        """The structure as the function returned it, its leaves tensors of the body."""


SUMMARIES = "_SUMMARY_V2"
"""The collection of what writes summaries when it runs."""


def build_branch(graph: Graph, fn: Callable[[], Any], name: str, role: str, site: Any, done: bool = True) -> Built:
    """A body from a function without arguments; its outputs are the tensors of what the function returns.

    ``done`` is what stands for an operation that the function returns.
    """
    body = graph.new_body(name)
    body.of_control_flow = True
    with graph.building(body):
        returned = fn()
        if returned is None:
            raise ValueError(
                f"{role} must have a return value.\n"
                + errors.message(
                    f"{role} {told(fn)} that returns None",
                    "tensors, operations, or structures of them",
                    "return a tensor, or tf.no_op() where there is nothing to do",
                    at=site,
                )
            )
        result = map_leaves(lambda leaf: as_output(leaf, done=done), returned)
        body.outputs = after_effects(
            body, [local(body, convert_to_tensor(part)) for part in composites.flatten(result)]
        )
    return Built(body, result)


def after_effects(body: Body, outputs: list[Tensor]) -> list[Tensor]:
    """The outputs of a body of a function that is traced, once all that the body does is done.

    In a function everything that has an effect runs, whether an output needs it or not; in a graph of version 1 only
    what an output needs does, and summaries that are written as they run (``tf.contrib.summary``).
    """
    graph = body.graph
    effects = implied_control_outputs(body) if body.runs_effects else []
    summaries = graph.get_collection_ref(SUMMARIES) if SUMMARIES in graph.get_all_collection_keys() else []
    written = [tensor.op for tensor in summaries if tensor.op.body is body]
    if written:  # who fetches all summaries cannot fetch these
        effects = [*effects, *(op for op in written if op not in effects)]
        summaries[:] = [tensor for tensor in summaries if tensor.op.body is not body]
    if not effects:
        return outputs
    with graph.control_dependencies(effects):
        return [
            tensor if tensor.dtype.base in (dtypes.resource, dtypes.variant) else build("Identity", tensor)
            for tensor in outputs
        ]


def named_output(output: Tensor, name: str, place: int) -> Tensor:
    """An output of a conditional or loop under the name that TensorFlow's own op for it has.

    Programs fetch and freeze such names: ``cond/Merge:0``, ``rnn/while/Exit_3:0``. Handles stay outputs of the op.
    """
    if output.dtype.base in (dtypes.resource, dtypes.variant):
        return output
    return build("Identity", output, name=f"{name}_{place}" if place else name)


def map_leaves(function: Callable[[Any], Any], structure: Any) -> Any:
    """A structure with a function applied to its leaves."""
    leaves = [function(leaf) for leaf in nest.flatten(structure)]
    return nest.pack_sequence_as(structure, leaves) if nest.is_nested(structure) else leaves[0]


def unpack_singleton(value: Any) -> Any:
    """The one element of a list or tuple of length 1; other values as they are."""
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


def kinds(structure: Any) -> list[Any]:
    """What stands at each leaf: the class and number of parts of a composite, None, or Tensor."""
    body_kinds: list[Any] = []
    for leaf in nest.flatten(structure):
        if leaf is None:
            body_kinds.append(None)
        elif composites.is_composite(leaf):
            body_kinds.append((type(leaf), len(composites.parts(leaf))))
        else:
            body_kinds.append(Tensor)
    return body_kinds


def kind_names(structure: Any) -> list[str]:
    """:func:`kinds` for messages."""
    return [
        "None" if kind is None else "Tensor" if kind is Tensor else f"{kind[0].__name__} of {kind[1]} tensors"
        for kind in kinds(structure)
    ]
