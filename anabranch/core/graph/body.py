"""Nested bodies: ordered sets of operations inside a graph, their arguments and captures.

See :mod:`anabranch.core.graph.graph` for how bodies, graphs and the operations that own bodies belong together, and
:mod:`anabranch.core.graph.body_ops` for how an operation's inputs stand for the arguments of its bodies.

What a body may use: its own tensors, those of the bodies around it, and, if it is the *gradient body* of a forward
body, those of that one. Each such use goes through an argument. A reference (a variable's `VariableV2` output) is
captured as a reference, so that it can be assigned to inside; a plain read of one (like an `Identity` of it without
control inputs, ``w/read``) is captured as the reference, too: its value is read where it is consumed. A tensor of the
forward body becomes an *intermediate*: what brings it into the gradient body is settled when that body is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from anabranch.core import errors
from anabranch.core.contract import inference, opdef
from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import is_transparent_read
from anabranch.core.values import shapes
from anabranch.core.values.dtypes import DType

if TYPE_CHECKING:
    from anabranch.core.graph.graph import Graph


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
        self.control_outputs: list[Operation] = []
        """Operations that run whenever the body does, though no output needs them."""
        self.forward: Body | None = None
        """The body whose gradient this body computes."""
        self.intermediates: dict[Tensor, Tensor] = {}
        """Tensors of :attr:`forward` -> the arguments that stand for them."""
        self.exposed: dict[Tensor, tuple[Tensor, bool]] = {}
        """Tensors of the body -> the owner's output that a gradient takes them from, and whether that is an optional
        or a list of their values.
        """
        self.outer_control_inputs: dict[Operation, None] = {}
        """Operations of enclosing bodies that must run before the owner."""
        self.called: Body | None = None if parent is None else parent.called
        """The function that it is, or is in, of those that kernels call: later, and outside the owner's step."""
        self.runs_effects: bool = parent is not None and parent.runs_effects
        """Whether it is in a function that is traced, where all that has an effect runs, whether an output needs it."""
        self.of_control_flow = False
        """Whether it is a branch or the body or condition of a loop, which ``tf.control_dependencies(None)`` leaves."""
        self.of_loop = False
        """Whether it is the body or condition of a loop."""
        self.copies: dict[Operation, Operation] | None = None
        """Of a function that captures by value: operations from outside -> what computes the same in it."""
        self.free = False
        """Whether it is held by an op that has run, and not by one of the graph."""
        self.created = 0
        """Of such a function, or a branch or loop in it, how many operations have been made in it."""
        self.shared = False
        """Whether calls of one function hold it together; see :mod:`anabranch.core.graph.shared_bodies`."""
        self.function: NamedAttrs | None = None
        """The library function that the body was read from."""
        self.state_as_read: tuple[Any, ...] | None = None
        """What the body was like when it was read; see `function_def.is_as_read`."""
        self.library_name = ""
        """The name that it asks for in a graph's library: that of the function which a program defined."""
        self.function_name: str | None = None
        """Name of the body in a graph's library, once it was written."""

    @property
    def by_value(self) -> bool:
        """Whether it captures what a variable holds when the owner runs, not the variable."""
        return self.called is self

    @property
    def counting(self) -> Body:
        """The body whose count of operations seeds take in this one, which is in a function that a kernel calls.

        In TensorFlow the function is a graph of its own, and so is each branch, condition and body of a loop in it.
        """
        body = self
        while body is not body.called and not body.of_control_flow:
            assert body.parent is not None
            body = body.parent
        return body

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
        """Append an argument of the body and return its tensor."""
        graph = self.graph
        with graph.building(self), graph.control_dependencies(None), graph.bare_scopes():
            op = graph._create(opdef.lookup("_Arg"), [], {"T": dtype, "index": len(self.args)}, name)
        arg = op._outputs[0]
        arg._shape = shapes.as_raw(shape)
        self.args.append(arg)
        return arg

    @property
    def exposed_outputs(self) -> list[int]:
        """The outputs of the owner, a conditional, that its gradient takes out of this branch."""
        return sorted(outer.value_index for outer, optional in self.exposed.values() if not optional)

    def capture(self, tensor: Tensor, user: str = "") -> Tensor:
        """The tensor inside this body that stands for ``tensor`` of an enclosing body (or of the forward body).

        ``user`` is the name of the operation that takes it.
        """
        if tensor.op.body is self:
            return tensor
        captured = self.captures.get(tensor)
        if captured is not None:
            return captured
        if any(tensor.op.body is earlier for earlier in self.forwards()):
            return self._intermediate(tensor)
        if self.parent is None or not self.reaches(tensor.op.body):
            raise ValueError(
                self._words_of_loops(tensor, user)
                + errors.message(
                    f"tensor {tensor.name!r} of the nested body {tensor.op.body.name!r} used in body {self.name!r}",
                    "a tensor of this body or of one around it",
                    "return the tensor from the branch or loop body and use the returned one",
                    at=tensor.op.user_site,
                )
            )
        if self.copies is not None:
            return self._copied(tensor.op)._outputs[tensor.value_index]
        outer = self.parent.capture(tensor)
        if not self.by_value and is_transparent_read(outer.op):
            outer = outer.op._inputs[0]
        if self.by_value and outer.dtype.is_ref:
            raise ValueError(
                errors.message(
                    f"the reference {outer.name!r} in function {self.name!r}, which is called outside the step",
                    "a value, or a variable that has a handle",
                    "tf.get_variable(..., use_resource=True)",
                    at=outer.op.user_site,
                )
            )
        captured = self.captures.get(outer)
        if captured is None:
            if self.owner is not None:
                captured = _grow_owner(self, outer)
            else:
                captured = self.add_arg(outer.dtype, outer._shape, capture_name(outer))
            captured._handle = outer._handle
            captured._known = inference.partial_value(outer)
            self.captures[outer] = captured
        if tensor.op.body is not self.parent and tensor.op.body.encloses(self):
            self.captures[tensor] = captured
        return captured

    def _copied(self, op: Operation) -> Operation:
        """An operation of this body that computes what one from outside does, with copies of all that leads to it."""
        assert self.copies is not None
        copy = self.copies.get(op)
        if copy is None:
            if op.body is self:
                return op
            fed = op.definition.effect.kind == "feed"
            if fed or op.definition.is_stateful or any(isinstance(value, Body) for value in op._attrs.values()):
                what = "placeholder" if fed else "stateful node"
                raise ValueError(
                    f"Cannot capture a {what} (name:{op.name}, type:{op.type}) by value.\n"
                    + errors.message(
                        f"{op.name!r}, which a function uses that captures by value",
                        "what is computed from constants",
                        "pass it as an argument, or capture_by_value=False",
                        at=op.user_site,
                    )
                )
            graph = self.graph
            with graph.building(self), graph.control_dependencies(None):
                inputs = [self._copied(tensor.op)._outputs[tensor.value_index] for tensor in op._inputs]
                copy = graph._create(op.definition, inputs, op._attrs, op.name.rpartition("/")[2])
            self.copies[op] = copy
        return copy

    def _words_of_loops(self, tensor: Tensor, user: str) -> str:
        """TensorFlow's line about a tensor of a loop that is used outside it; none if it is of a branch."""
        theirs, ours = tensor.op.body._loop(), self._loop()
        if theirs is None or theirs.encloses(self):
            return ""
        name = tensor.op.name
        why = f"{name!r} is in a while loop" if ours is None else "they are in different while loops"
        return f"Cannot use {name!r} as input to {user!r} because {why}. See info log for more details.\n"

    def _loop(self) -> Body | None:
        """The innermost loop that this body is or is in."""
        body: Body | None = self
        while body is not None and not body.of_loop:
            body = body.parent
        return body

    def reaches(self, other: Body) -> bool:
        """Whether tensors of ``other`` can be used here: it encloses this body, or is the forward body of one that
        does.
        """
        inner: Body | None = self
        while inner is not None:
            if other is inner or any(other is earlier for earlier in inner.forwards()):
                return True
            inner = inner.parent
        return False

    def forwards(self) -> Iterator[Body]:
        """The body whose gradient this body computes; and, of branches, the body whose gradient that one computes.

        A gradient of a gradient takes values of the first branch where a rule of the program's own closes over them.
        The iterations of loops do not match in such a way.
        """
        earlier = self.forward
        if earlier is None:
            return
        yield earlier
        while earlier.forward is not None and all(_is_branch(body) for body in (earlier, earlier.forward)):
            earlier = earlier.forward
            yield earlier

    def _intermediate(self, tensor: Tensor) -> Tensor:
        intermediate = self.intermediates.get(tensor)
        if intermediate is None:
            before, captured = len(self.operations), len(self.captures)
            intermediate = self.intermediates[tensor] = _find_intermediate(self, tensor)
            if len(self.captures) == captured:  # what it counts as is said where the gradient is
                self.graph._count(before - len(self.operations))
        return intermediate

    def __repr__(self) -> str:
        return f"<Body {self.name!r} of {len(self.operations)} ops>"


def _is_branch(body: Body) -> bool:
    return body.owner is not None and body.owner.role in (Role.CONDITIONAL, Role.CALL)


def capture_name(tensor: Tensor) -> str:
    """Name of the argument that stands for a captured tensor."""
    return f"{tensor.op.name.rsplit('/', 1)[-1]}_capture"


def _late(*args: Any) -> Any:
    raise AssertionError("anabranch.core.graph.body_ops is not loaded")


_grow_owner: Callable[[Body, Tensor], Tensor] = _late
"""Adds an input to the op that owns a body; returns the argument. Filled by :mod:`anabranch.core.graph.body_ops`."""
_find_intermediate: Callable[[Body, Tensor], Tensor] = _late
"""Brings a tensor of the forward body into its gradient body. Filled by :mod:`anabranch.core.graph.body_ops`."""
