"""What code may ask of a value and of an application of an op, however ops are executed.

Two things run through all code that computes: a :class:`Tensor`, and the application of an op to tensors, an
:class:`OpView`. There are two ways to execute ops: a graph, where an op is added now and run later by a session, and
modes that run it at once (see :mod:`anabranch.core.graph.builder`). The classes of this module say what all of them
give; a mode derives from them. Gradient rules and libraries use nothing else. In a graph the two are
:class:`~anabranch.core.graph.operation.GraphTensor` and :class:`~anabranch.core.graph.operation.Operation`.

What a subclass of :class:`Tensor` owes: ``dtype``; ``_shape``, the static shape in raw form (of a value that exists,
its shape); ``_known``, the value in so far as it is known (of a value that exists, the array); ``_handle``, what is
behind a resource or variant; ``device``. Where a value exists, ``bool``, ``len`` and ``__array__`` are Python's own.

What belongs to a graph alone (``op``, ``graph``, ``name``, ``value_index``, ``consumers``) raises AttributeError
elsewhere, as in TensorFlow, so that ``hasattr`` tells. Messages name a tensor by ``_label``.

Operators (``x + y``) and indexing are filled in by :mod:`anabranch.ops.shared.operators`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.inference import HandleData
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.values import shapes
from anabranch.core.values.dtypes import DType
from anabranch.core.values.identities import Reference


class TensorLike:
    """Base of what is a tensor to ``tf.is_tensor`` without being one: ``__tf_tensor__(dtype, name)`` gives it."""

    __slots__ = ()


class Tensor:
    """A multi-dimensional array, there already or to be computed: a dtype and a static shape, which may be known in
    part.
    """

    __slots__ = ("__dict__", "__weakref__")

    has_value = False
    """Whether the value is there already."""
    __array_priority__ = 100  # NumPy arrays on the left let our operators take over

    # Given by subclasses.
    dtype: DType
    _shape: shapes.RawShape
    _known: Any
    _handle: HandleData | None
    _made_by: OpView | None
    """In a graph the operation that makes it; of a handle that is a value, the op that named the resource."""
    _consumers: list[Any]  # in a graph only

    # ------------------------------------------------------------------------------------------------ dtype and shape
    @property
    def shape(self) -> shapes.TensorShape:
        """Static shape."""
        return shapes.TensorShape(self._shape)

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return shapes.TensorShape(self._shape)

    def set_shape(self, shape: Any) -> None:
        """Merge ``shape`` into the static shape; a shape that is fully known stays as it is.

        Raises:
            ValueError: they contradict each other.
        """
        shapes.merge(self._shape, shapes.as_raw(shape))

    @property
    def ndim(self) -> int:
        """Rank; ValueError if it is not known."""
        if self._shape is None:
            raise ValueError(
                errors.message(
                    f"tensor {self._label} of unknown rank",
                    "a tensor of known rank",
                    "x.set_shape([None, None]), or tf.rank(x) for the rank at run time",
                )
            )
        return len(self._shape)

    @property
    def handle_data(self) -> HandleData | None:
        """Dtype and shape of the value behind a resource or variant tensor, if known."""
        return self._handle

    @property
    def device(self) -> str:
        """The device string of the op that makes it."""
        return ""

    _is_zeros = False
    """Whether it is known to be zero: a gradient of what no gradient reaches."""

    @property
    def _maker(self) -> Any:
        """The operation of a graph that makes it; None of a value that exists, which does not tell where it is from."""
        return None

    @property
    def _resource_name(self) -> str:
        """Of a handle, the name of its resource: in a graph that of the operation that makes it."""
        self._only_in_a_graph("op")

    @property
    def _label(self) -> str:
        """How messages name the tensor."""
        return f"<{self.dtype.name} of shape {shapes.show(self._shape)}>"

    # --------------------------------------------------------------------------------------------- of a graph's tensors
    def _only_in_a_graph(self, attribute: str) -> NoReturn:
        raise AttributeError(
            f"Tensor.{attribute} is meaningless when eager execution is enabled.\n"
            + errors.message(
                f".{attribute} of tensor {self._label}, a value that was computed already",
                "a tensor of a graph",
                "with tf.Graph().as_default(): ... around the code that builds the tensor",
            )
        )

    @property
    def op(self) -> Any:
        """The operation of a graph that makes it."""
        self._only_in_a_graph("op")

    @property
    def graph(self) -> Any:
        """The graph that holds it."""
        self._only_in_a_graph("graph")

    def _as_tf_output(self) -> Any:
        """The tensor as functions of TensorFlow's C interface take it: itself."""
        return self

    @property
    def name(self) -> str:
        """``"op_name:output_index"`` in a graph."""
        self._only_in_a_graph("name")

    @property
    def value_index(self) -> int:
        """Which output of its operation it is."""
        self._only_in_a_graph("value_index")

    def experimental_ref(self) -> Reference:
        """The tensor as a key of dictionaries and sets; ``deref()`` gives it back."""
        return Reference(self)

    def consumers(self) -> list[Any]:
        """Operations of the graph that take it as an input, one as often as it takes it."""
        raise NotImplementedError(
            "Tensor.consumers is meaningless when eager execution is enabled.\n"
            + errors.message(f"consumers of tensor {self._label}, a value", "a tensor of a graph", "tf.GradientTape")
        )

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Run the tensor in ``session`` or the default session and return its value."""
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?\n"
            + errors.message(
                f"eval() of tensor {self._label}, a value that was computed already", "a tensor of a graph", "x.numpy()"
            )
        )

    # --------------------------------------------------------------------------------------------------------- Python
    # Equality and hash are object's own: identity, at C speed. Tensors are keys everywhere.

    def __iter__(self) -> Iterator[Any]:
        if self._shape is None or not self._shape or self._shape[0] is None:
            if self.has_value:
                raise TypeError(
                    "Cannot iterate over a scalar tensor.\n"
                    + errors.message(f"iteration over tensor {self._label} of shape []", "a vector", "[x]")
                )
            raise TypeError(
                "Tensor objects are not iterable when eager execution is not enabled. To iterate over this tensor use "
                "tf.map_fn.\n"
                + errors.message(
                    f"iteration over tensor {self._label} of shape {shapes.show(self._shape)}",
                    "a known first dimension",
                    "tf.map_fn or tf.while_loop, or set_shape first",
                )
            )
        return (self[i] for i in range(self._shape[0]))

    def __copy__(self) -> Tensor:
        return self

    def __getitem__(self, key: Any) -> Tensor:
        return hooks.get_item(self, key)

    # Binary and unary operators are filled by ops/shared/operators.py.


class OpView:
    """The application of an op to tensors: its contract, inputs, attributes and outputs.

    This is what a gradient rule gets (``op.type``, ``op.inputs``, ``op.outputs``, ``op.get_attr(name)``), and what a
    tape records of an op that was run at once. A graph's :class:`~anabranch.core.graph.operation.Operation` is one too.

    Args:
        definition: the contract.
        inputs: flat tensors.
        attrs: all attributes, in stored form.
        outputs: flat tensors.
    """

    __slots__ = ("__dict__", "__weakref__", "_attrs", "_inputs", "_outputs", "definition", "name")

    definition: OpDefinition
    _attrs: dict[str, Any]
    _inputs: tuple[Any, ...]
    _outputs: tuple[Any, ...]
    name: str
    """What messages and name scopes call the application: the type, in a graph the name of the operation."""
    accepts_none = False
    """Whether its gradient rule takes None for an output that no gradient reaches, in place of zeros."""
    user_site: Any = None
    """The user's line that applied the op, where it is kept."""

    def __init__(
        self, definition: OpDefinition, inputs: tuple[Any, ...], attrs: dict[str, Any], outputs: tuple[Any, ...]
    ) -> None:
        self.definition = definition
        self._inputs = inputs
        self._attrs = attrs
        self._outputs = outputs
        self.name = definition.type_name

    @property
    def type(self) -> str:
        """Name of the op type."""
        return self.definition.type_name

    @property
    def role(self) -> Role | None:
        """The part that the op plays in the graph, if it is a special one."""
        return self.definition.role

    @property
    def inputs(self) -> Inputs:
        """Input tensors."""
        return Inputs(self._inputs)

    @property
    def outputs(self) -> list[Any]:
        """Output tensors."""
        return list(self._outputs)

    @property
    def device(self) -> str:
        """Device string, possibly partial or empty."""
        return ""

    @property
    def _stand_in(self) -> Any:
        """What a program gets for an application without outputs: None where the op has run already."""
        return None

    def get_attr(self, name: str) -> Any:
        """Value of an attribute: dtypes as DType, strings as bytes, tensors as TensorProto, shapes as TensorShape.

        Raises:
            ValueError: the op has no attribute of that name.
        """
        if name not in self._attrs:
            raise ValueError(
                f"Operation {self.name!r} has no attr named {name!r}.\n"
                + errors.message(
                    f"attribute {name!r} of op {self.name!r} ({self.type})",
                    f"one of {sorted(self._attrs)}",
                    "check the name with op.node_def",
                )
            )
        value = self._attrs[name]
        spec = self.definition.attrs.get(name)
        element = spec.element if spec is not None else ""
        if element == "tensor":
            dtype = self._attrs.get("dtype")
            several = isinstance(value, tuple)
            return [hooks.tensor_attr(one, dtype) for one in value] if several else hooks.tensor_attr(value, dtype)
        return _public_attr(value, element)


class Inputs(tuple[Any, ...]):
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


Inputs.__name__ = "_InputList"  # what programs that try to change it are told


def _public_attr(value: Any, element: str) -> Any:
    if isinstance(value, tuple) and element != "shape":
        return [_public_attr(item, element) for item in value]
    if element == "shape":
        if isinstance(value, tuple) and any(isinstance(item, tuple) for item in value):
            return [shapes.TensorShape(item) for item in value]
        return shapes.TensorShape(value)
    return value.encode() if isinstance(value, str) else value
