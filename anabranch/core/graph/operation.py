"""Operations and their tensors: the nodes of a graph and the values on its edges.

Both are made by :class:`anabranch.core.graph.graph.Graph` only. An operation knows its type's contract
(``definition``), its inputs, its attributes in stored form, the nested body that it belongs to and the user's line
that made it. A tensor of a graph is one output of an operation; its static shape may be refined by ``set_shape`` and
is never widened. What code may ask where there need not be a graph stands in :mod:`anabranch.core.graph.tensor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.core import errors
from anabranch.core.contract import hooks, opdef
from anabranch.core.contract.inference import _UNSET, HandleData
from anabranch.core.contract.opdef import REQUIRED, OpDefinition
from anabranch.core.graph.body_context import BodyContext, context_of
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import shapes
from anabranch.core.values.dtypes import DType

if TYPE_CHECKING:
    from anabranch.core.graph.graph import Body, Graph

__all__ = ["Deferred", "GraphTensor", "OpView", "Operation", "Tensor", "missing_attr"]


class _PublicTensorType(type):
    """The class of classes that makes the one of a graph's tensors what programs know as ``tf.Tensor``.

    ``type(x) is tf.Tensor`` holds for tensors of graphs and ``isinstance(x, tf.Tensor)`` for those with a value too, as
    in TensorFlow. Code of ours that means graphs alone asks for ``type(x) is GraphTensor``, or for :class:`Deferred`.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Tensor)


class GraphTensor(Tensor, metaclass=_PublicTensorType):
    """One output of an operation: a dtype, a static shape (partly known), and the name ``op:index``."""

    __slots__ = ("_consumers", "_handle", "_known", "_shape", "dtype", "op", "value_index")

    dtype: DType
    op: Operation
    value_index: int
    _shape: tuple[int | None, ...] | None
    _handle: HandleData | None

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: tuple[int | None, ...] | None):
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self._shape = shape
        self._known: Any = _UNSET
        self._handle = None
        self._consumers: list[Operation] = []

    @property
    def name(self) -> str:
        """``"op_name:output_index"``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def _maker(self) -> Operation:
        return self.op

    @property
    def _made_by(self) -> Operation:  # type: ignore[override]
        return self.op

    @property
    def _resource_name(self) -> str:
        return self.op.name

    @property
    def _label(self) -> str:
        return repr(self.name)

    @property
    def graph(self) -> Graph:
        """The graph that holds the tensor."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device string of the op that makes it."""
        return self.op.device

    def set_shape(self, shape: Any) -> None:
        """Merge ``shape`` into the static shape.

        Raises:
            ValueError: they contradict each other.
        """
        merged = shapes.merge(self._shape, shapes.as_raw(shape))
        if merged != self._shape:
            self.op.graph._check_not_finalized()
            self._shape = merged
            self.op.graph._note_change(self.op)

    def consumers(self) -> list[Operation]:
        """Operations that take this tensor as an input, one as often as it takes it."""
        return list(self._consumers)

    def _shape_as_list(self) -> list[int | None] | None:
        return None if self._shape is None else list(self._shape)

    def _shape_tuple(self) -> tuple[int | None, ...] | None:
        return self._shape

    @property
    def _op(self) -> Operation:
        return self.op

    @property
    def _value_index(self) -> int:
        return self.value_index

    @property
    def _dtype(self) -> DType:
        return self.dtype

    @property
    def _id(self) -> int:
        return id(self)

    def _as_node_def_input(self) -> str:
        return self.op.name if self.value_index == 0 else f"{self.op.name}:{self.value_index}"

    def mark_used(self) -> None:
        """Do nothing: TensorFlow warns of results that nobody uses, and programs silence it by this."""

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Run the tensor in ``session`` or the default session and return its value."""
        return hooks.evaluate(self, feed_dict, self.graph, session)

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={self.get_shape()} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        return (
            f'Tensor("{self.name}", shape={self.get_shape()}, dtype={self.dtype.name})'
            if self._shape is not None
            else (f'Tensor("{self.name}", dtype={self.dtype.name})')
        )

    def __bool__(self) -> bool:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not None:` instead of `if t:` to test "
            "if a tensor is defined, and use TensorFlow ops such as tf.cond to execute subgraphs conditioned on the "
            "value of a tensor.\n"
            + errors.message(
                f"tensor {self.name!r} used as a Python bool",
                "a value that is known while the graph is built",
                "`if t is not None:` to ask whether it is there; tf.cond(t, ...) to branch on its value",
            )
        )

    __nonzero__ = __bool__

    def __len__(self) -> int:
        raise TypeError(
            f"object of type 'Tensor' has no len(): len is not well defined for symbolic Tensors. ({self.name})\n"
            + errors.message(
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

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        raise TypeError(
            errors.message(
                f"copy.deepcopy of tensor {self.name!r}", "a value", "copy the GraphDef, or the tensor's value"
            )
        )


GraphTensor.__name__ = "Tensor"  # what messages call it, and programs that look at a tensor's class


class _OfAGraph(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is GraphTensor


class Deferred(metaclass=_OfAGraph):
    """What the tensors of graphs alone are instances of, for registries that ask by ``isinstance``."""


class _OperationType(type):
    """The class of classes that takes ``tf.Operation(node_def, graph, inputs)``, as programs that copy graphs write."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        node_def = args[0] if args else kwargs.get("node_def")
        if hasattr(node_def, "DESCRIPTOR"):
            graph = args[1] if len(args) > 1 else kwargs["g"]
            return graph._operation_of_node(node_def, *args[2:], **{k: v for k, v in kwargs.items() if k not in _OWN})
        return super().__call__(*args, **kwargs)


_OWN = ("node_def", "g")


class Operation(OpView, metaclass=_OperationType):
    """A node of a graph."""

    _inputs: tuple[Tensor, ...]
    _outputs: tuple[Tensor, ...]

    __slots__ = (
        "_control_inputs",
        "_control_outputs",
        "_device",
        "_id",
        "_made_at",
        "body",
        "graph",
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
        self._outputs = ()
        self.original: Any = None
        self._effects: Any = None
        """Effects of the bodies that the op holds, as the planner found them for a version of the graph."""
        """The forward op that a gradient op was made for."""

    @property
    def _stand_in(self) -> Operation:
        """What a program gets for an operation without outputs: the operation, to be run."""
        return self

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
    def traceback_with_start_lines(self) -> list[Any]:
        """Like :attr:`traceback`, each with the line at which its function begins: (..., text, line)."""
        frames = self.user_site.frames_with_starts() if self.user_site is not None else []
        return list(reversed(frames))

    @property
    def _original_op(self) -> Operation | None:
        return self.original

    def colocation_groups(self) -> list[bytes]:
        """The ``loc:@name`` groups the op belongs to; its own if none was given."""
        given = self._attrs.get("_class")
        groups = [item.encode() if isinstance(item, str) else item for item in given or ()]
        return [item for item in groups if item.startswith(b"loc:@")] or [b"loc:@" + self.name.encode()]

    def _set_attr(self, name: str, value: Any) -> None:
        """Set an attribute given as an AttrValue proto or in stored form."""
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

    def mark_used(self) -> None:
        """Do nothing: TensorFlow warns of results that nobody uses, and programs silence it by this."""

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run the operation in ``session`` or the default session."""
        hooks.evaluate(self, feed_dict, self.graph, session)

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops: Sequence[Operation]) -> None:
        self.graph._add_control_inputs(self, ops)

    def _update_input(self, index: int, tensor: Tensor) -> None:
        self.graph._update_input(self, index, tensor)

    def _add_input(self, tensor: Tensor, dtype: Any = None) -> None:
        """Give the operation the first of the inputs that it was made without."""
        waiting = (index for index, given in enumerate(self._inputs) if given.op._id == _TO_COME)
        index = next(waiting, None)
        if index is None:
            raise ValueError(
                errors.message(
                    f"a further input for operation {self.name!r}",
                    f"the {len(self._inputs)} inputs of a {self.type!r}",
                    "op._update_input(index, tensor) to replace one",
                )
            )
        self.graph._update_input(self, index, tensor)

    def _remove_all_control_inputs(self) -> None:
        self.graph._remove_all_control_inputs(self)

    def _set_device(self, device: Any) -> None:
        self.graph._set_device(self, device)

    # What libraries read of TensorFlow's own fields.
    def _get_control_flow_context(self) -> BodyContext | None:
        return context_of(self.body)

    _control_flow_context = property(_get_control_flow_context)

    @property
    def _node_def(self) -> Any:
        return self.node_def

    @property
    def _op_def(self) -> Any:
        return self.op_def

    @property
    def _graph(self) -> Graph:
        return self.graph

    @property
    def _id_value(self) -> int:
        return self._id

    @property
    def _traceback(self) -> list[Any]:
        return self.traceback

    @property
    def _output_types(self) -> list[int]:
        return [tensor.dtype.as_datatype_enum for tensor in self._outputs]

    @property
    def _input_types(self) -> list[DType]:
        return self.definition.input_dtypes(self._attrs)

    def values(self) -> tuple[Tensor, ...]:
        """Output tensors as a tuple."""
        return self._outputs

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)

    def __deepcopy__(self, memo: dict[int, Any]) -> Operation:
        raise TypeError(errors.message(f"copy.deepcopy of operation {self.name!r}", "a value", "copy the GraphDef"))


_TO_COME = -1  # the creation number of what stands for an input that is not there yet


def inputs_to_come(graph: Graph, name: str, dtypes: Sequence[DType]) -> list[Tensor]:
    """What stands for the inputs of an operation that is made without them: outputs of no operation of the graph.

    A step that needs one of them asks for its value, as for that of a placeholder that is not fed.
    """
    definition = opdef.lookup("Placeholder")
    tensors: list[Tensor] = []
    for index, dtype in enumerate(dtypes):
        attrs = {"dtype": dtype.base, "shape": definition.attrs["shape"].default}
        label = f"{name.rstrip('/')}/input_{index}"
        op = Operation(graph, graph.current_body, definition, label, (), attrs, (), "", None, _TO_COME)
        op._outputs = (GraphTensor(op, 0, dtype, None),)
        tensors.append(op._outputs[0])
    return tensors


def missing_attr(value: Any) -> bool:
    """Whether an attribute has no default."""
    return value is REQUIRED
