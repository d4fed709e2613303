"""Operations and tensors: the nodes of a graph and the values on its edges.

Both are made by :class:`anabranch.core.graph.graph.Graph` only. An operation knows its type's contract
(``definition``), its inputs, its attributes in stored form, the nested body that it belongs to and the user's line
that made it. A tensor is one output of an operation; its static shape may be refined by ``set_shape`` and is never
widened. Operators (``x + y``), ``Tensor.eval`` and indexing are filled in by upper layers through
:mod:`anabranch.core.contract.hooks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.inference import _UNSET, HandleData
from anabranch.core.contract.opdef import REQUIRED, OpDefinition
from anabranch.core.values import shapes
from anabranch.core.values.dtypes import DType

if TYPE_CHECKING:
    from anabranch.core.graph.graph import Body, Graph


class Tensor:
    """One output of an operation: a dtype, a static shape (partly known), and the name ``op:index``."""

    __slots__ = ("__dict__", "__weakref__", "_consumers", "_handle", "_known", "_shape", "dtype", "op", "value_index")

    __array_priority__ = 100  # NumPy arrays on the left let our operators take over

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: tuple[int | None, ...] | None):
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self._shape = shape
        self._known: Any = _UNSET
        self._handle: HandleData | None = None
        self._consumers: list[Operation] = []

    @property
    def name(self) -> str:
        """``"op_name:output_index"``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The graph that holds the tensor."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device string of the op that makes it."""
        return self.op.device

    @property
    def shape(self) -> shapes.TensorShape:
        """Static shape."""
        return shapes.TensorShape(self._shape)

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return shapes.TensorShape(self._shape)

    def set_shape(self, shape: Any) -> None:
        """Merges ``shape`` into the static shape.

        Raises:
            ValueError: they contradict each other.
        """
        merged = shapes.merge(self._shape, shapes.as_raw(shape))
        if merged != self._shape:
            self.op.graph._check_not_finalized()
            self._shape = merged
            self.op.graph._note_change(self.op)

    @property
    def handle_data(self) -> HandleData | None:
        """Dtype and shape of the value behind a resource or variant tensor, if known."""
        return self._handle

    def consumers(self) -> list[Operation]:
        """Operations that take this tensor as an input, each once."""
        return list(dict.fromkeys(self._consumers))

    @property
    def ndim(self) -> int:
        """Rank; ValueError if it is not known."""
        if self._shape is None:
            raise ValueError(
                errors.message(
                    f"tensor {self.name!r} of unknown rank", "a known rank", "call set_shape, or use tf.rank(x)"
                )
            )
        return len(self._shape)

    def _as_node_def_input(self) -> str:
        return self.op.name if self.value_index == 0 else f"{self.op.name}:{self.value_index}"

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Runs the tensor in ``session`` or the default session and returns its value."""
        return hooks.evaluate(self, feed_dict, self.graph, session)

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={self.get_shape()} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        return (
            f'Tensor("{self.name}", shape={self.get_shape()}, dtype={self.dtype.name})'
            if self._shape is not None
            else (f'Tensor("{self.name}", dtype={self.dtype.name})')
        )

    # Equality and hash are object's own: identity, at C speed. Tensors are keys everywhere.

    def __bool__(self) -> bool:
        raise TypeError(
            errors.message(
                f"tensor {self.name!r} used as a Python bool",
                "a value that is known while the graph is built",
                "`if t is not None:` to ask whether it is there; tf.cond(t, ...) to branch on its value",
            )
        )

    __nonzero__ = __bool__

    def __iter__(self) -> Iterator[Any]:
        if self._shape is None or not self._shape or self._shape[0] is None:
            raise TypeError(
                errors.message(
                    f"iteration over tensor {self.name!r} of shape {shapes.show(self._shape)}",
                    "a known first dimension",
                    "tf.map_fn or tf.while_loop, or set_shape first",
                )
            )
        return (self[i] for i in range(self._shape[0]))

    def __len__(self) -> int:
        raise TypeError(
            errors.message(
                f"len() of tensor {self.name!r}",
                "a static or a dynamic size",
                "x.shape[0].value for the static size, tf.shape(x)[0] for the one at run time",
            )
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            errors.message(
                f"tensor {self.name!r} of a graph given to NumPy",
                "an array",
                "run it in a session first (session.run(t)), or use the tf function of that name",
            )
        )

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        raise TypeError(
            errors.message(
                f"copy.deepcopy of tensor {self.name!r}", "a value", "copy the GraphDef, or the tensor's value"
            )
        )

    def __getitem__(self, key: Any) -> Tensor:
        return hooks.get_item(self, key)

    # Binary and unary operators are filled by ops/shared/operators.py through hooks.set_operators.


class Operation:
    """A node of a graph."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_attrs",
        "_control_inputs",
        "_control_outputs",
        "_device",
        "_id",
        "_inputs",
        "_made_at",
        "_outputs",
        "body",
        "definition",
        "graph",
        "name",
        "_effects",
        "original",
        "user_site",
    )

    def __init__(
        self,
        graph: Graph,
        body: Body,
        definition: OpDefinition,
        name: str,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        control_inputs: Sequence[Operation],
        device: str,
        site: Any,
        creation_id: int,
    ):
        self.graph = graph
        self.body = body
        self.definition = definition
        self.name = name
        self._inputs = tuple(inputs)
        self._attrs = attrs
        self._control_inputs = list(control_inputs)
        self._control_outputs: list[Operation] = []
        self._device = device
        self.user_site = site
        self._id = creation_id
        self._made_at = 0  # the graph's version once the op was in it
        self._outputs: tuple[Tensor, ...] = ()
        self.original: Operation | None = None
        self._effects: Any = None
        """Effects of the bodies that the op holds, as the planner found them for a version of the graph."""
        """The forward op that a gradient op was made for."""

    @property
    def type(self) -> str:
        """Name of the op type."""
        return self.definition.type_name

    @property
    def inputs(self) -> _Inputs:
        """Input tensors."""
        return _Inputs(self._inputs)

    @property
    def outputs(self) -> list[Tensor]:
        """Output tensors."""
        return list(self._outputs)

    @property
    def control_inputs(self) -> list[Operation]:
        """Operations that must have run before this one, besides those whose outputs it takes."""
        return list(self._control_inputs)

    @property
    def device(self) -> str:
        """Device string, possibly partial or empty."""
        return self._device

    @property
    def traceback(self) -> list[Any]:
        """The user's frames that made the op, outermost first, as (file, line, function, text)."""
        return list(reversed(self.user_site.frames())) if self.user_site is not None else []

    @property
    def _original_op(self) -> Operation | None:
        return self.original

    def colocation_groups(self) -> list[bytes]:
        """The ``loc:@name`` groups the op belongs to; its own if none was given."""
        given = self._attrs.get("_class")
        found = [item.encode() if isinstance(item, str) else item for item in given or ()]
        return [item for item in found if item.startswith(b"loc:@")] or [b"loc:@" + self.name.encode()]

    def get_attr(self, name: str) -> Any:
        """Value of an attribute: dtypes as DType, strings as bytes, shapes as TensorShape, lists as list.

        Raises:
            ValueError: the op has no attribute of that name.
        """
        if name not in self._attrs:
            raise ValueError(
                errors.message(
                    f"attribute {name!r} of op {self.name!r} ({self.type})",
                    f"one of {sorted(self._attrs)}",
                    "check the name with op.node_def",
                )
            )
        value = self._attrs[name]
        spec = self.definition.attrs.get(name)
        return _public_attr(value, spec.element if spec is not None else "")

    def _set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute given as an AttrValue proto or in stored form."""
        self.graph._check_not_finalized()
        if hasattr(value, "WhichOneof"):
            value = hooks.attr_from_proto(value)
            spec = self.definition.attrs.get(name)
            if spec is not None:
                value = spec.convert(value, name, self.type)
        self._attrs[name] = value
        self.graph._note_change(self)

    @property
    def node_def(self) -> Any:
        """The NodeDef of the op."""
        return hooks.node_def(self)

    @property
    def op_def(self) -> Any:
        """The OpDef of the op's type."""
        return hooks.op_def(self.definition)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs the operation in ``session`` or the default session."""
        hooks.evaluate(self, feed_dict, self.graph, session)

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops: Sequence[Operation]) -> None:
        self.graph._add_control_inputs(self, ops)

    def _update_input(self, index: int, tensor: Tensor) -> None:
        self.graph._update_input(self, index, tensor)

    def _set_device(self, device: Any) -> None:
        self.graph._set_device(self, device)

    def values(self) -> tuple[Tensor, ...]:
        """Output tensors as a tuple."""
        return self._outputs

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)

    def __deepcopy__(self, memo: dict[int, Any]) -> Operation:
        raise TypeError(errors.message(f"copy.deepcopy of operation {self.name!r}", "a value", "copy the GraphDef"))


class _Inputs(tuple[Tensor, ...]):
    """The inputs of an op: a tuple that also answers to the list operations programs use on ``op.inputs``."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return list(self) + list(other)

    def __radd__(self, other: Any) -> Any:
        return list(other) + list(self)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return tuple.__hash__(self)


def _public_attr(value: Any, element: str) -> Any:
    if isinstance(value, tuple) and element != "shape":
        return [_public_attr(item, element) for item in value]
    if element == "shape":
        if isinstance(value, tuple) and any(isinstance(item, tuple) for item in value):
            return [shapes.TensorShape(item) for item in value]
        return shapes.TensorShape(value)
    return value.encode() if isinstance(value, str) else value


def missing_attr(value: Any) -> bool:
    """Whether an attribute has no default."""
    return value is REQUIRED
