"""Nested bodies: ordered sets of operations inside a graph, their arguments and captures.

See :mod:`anabranch.core.graph` for how bodies, graphs and the operations that own bodies belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.core import errors, opdef, shapes
from anabranch.core.attrs import NamedAttrs
from anabranch.core.dtypes import DType
from anabranch.core.operation import Operation, Tensor

if TYPE_CHECKING:
    from anabranch.core.graph import Graph


class Body:
    """An ordered set of operations inside a graph: the root, a branch, a loop body or a function."""

    def __init__(self, graph: Graph, name: str, parent: Body | None):
        self.graph = graph
        self.name = name
        self.parent = parent
        self.owner: Operation | None = None
        """The op that holds the body as an attribute, once it exists."""
        self.operations: list[Operation] = []
        self.args: list[Tensor] = []
        """Arguments in order: the declared ones, then one per capture."""
        self.captures: dict[Tensor, Tensor] = {}
        """Outer tensor -> the argument that stands for it."""
        self.outputs: list[Tensor] = []
        self.outer_control_inputs: dict[Operation, None] = {}
        """Operations of enclosing bodies that must run before the owner."""
        self.function: NamedAttrs | None = None
        """The library function that the body was read from."""
        self.state_as_read: tuple[Any, ...] | None = None
        """What the body was like when it was read; see `function_def.is_as_read`."""
        self.function_name: str | None = None
        """Name of the body in a graph's library, once it was written."""

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def encloses(self, other: Body | None) -> bool:
        """Whether ``other`` is this body or nested in it."""
        while other is not None:
            if other is self:
                return True
            other = other.parent
        return False

    def add_arg(self, dtype: DType, shape: Any, name: str) -> Tensor:
        """Appends an argument of the body and returns its tensor."""
        with self.graph.building(self), self.graph.control_dependencies(None):
            op = self.graph._create(opdef.lookup("_Arg"), [], {"T": dtype.base, "index": len(self.args)}, name)
        arg = op._outputs[0]
        arg._shape = shapes.as_raw(shape)
        self.args.append(arg)
        return arg

    def capture(self, tensor: Tensor) -> Tensor:
        """The tensor inside this body that stands for ``tensor`` of an enclosing body."""
        if tensor.op.body is self:
            return tensor
        found = self.captures.get(tensor)
        if found is None:
            if self.parent is None or not tensor.op.body.encloses(self):
                raise ValueError(
                    errors.message(
                        f"tensor {tensor.name!r} of the nested body {tensor.op.body.name!r} used in body {self.name!r}",
                        "a tensor of this body or of one around it",
                        "return the tensor from the branch or loop body and use the returned one",
                    )
                )
            outer = self.parent.capture(tensor)
            found = self.add_arg(tensor.dtype, tensor._shape, f"{tensor.op.name.rsplit('/', 1)[-1]}_capture")
            found._handle = tensor._handle
            self.captures[outer] = found
            self.captures[tensor] = found
        return found

    def __repr__(self) -> str:
        return f"<Body {self.name!r} of {len(self.operations)} ops>"
