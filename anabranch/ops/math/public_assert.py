"""``tf.assert_equal`` and its kin: assertions that are decided while the graph is built where the values are known.

A comparison whose operands are constants fails at once with InvalidArgumentError; a rank or type that is statically
wrong with ValueError or TypeError. Otherwise the function returns an ``Assert`` operation to depend on.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.math.checks import assert_
from anabranch.ops.math.public_reduce import reduce_all

_COMPARE = """{doc}

    Args:
        x, y: numeric tensors that broadcast against each other.
        data: list of tensors and strings to show on failure; what failed, and the operands, if None.
        summarize: how many elements to show of each tensor.
        message: what the error's text begins with.
        name: name of the scope of the ops ("{name}").

    Raises:
        InvalidArgumentError: at once, if both operands are constants and it does not hold.
    """


_JUDGED_WHEN_BUILT = frozenset(
    (
        "Cast",
        "Concat",
        "ConcatOffset",
        "ConcatV2",
        "Const",
        "Equal",
        "Fill",
        "NotEqual",
        "Pack",
        "Range",
        "Rank",
        "Shape",
        "Size",
    )
)
"""Ops whose values an assertion looks at when it is built, in any number, like TensorFlow's.

Anything else is judged when it runs, although its value may be known: the assertion may stand in a branch that is never
taken, or a program may expect it to fail in a step.
"""


def _known(tensor: Tensor) -> np.ndarray | None:
    array = partial_value(tensor)
    return array if isinstance(array, np.ndarray) and _judged_when_built(tensor) else None


def _judged_when_built(tensor: Tensor) -> bool:
    maker = getattr(tensor, "_maker", None)
    if maker is None:  # ops run at once: the assertion runs now
        return True
    by_shape = maker.definition.shape_only
    return maker.type in _JUDGED_WHEN_BUILT and (by_shape or all(map(_judged_when_built, maker.inputs)))


def _shown(item: Any, summarize: int | None) -> str:
    """One entry of an assertion's data in an error that is raised while the graph is built."""
    if isinstance(item, Tensor):
        value = _known(item)
        if value is None:
            return str(item)
        flat = value.reshape(-1)
        limit = 3 if summarize is None else flat.size if summarize < 0 else summarize
        return str(flat[:limit]) if flat.size <= limit else str(flat[:limit])[:-1] + " ...]"
    return str(item)


def _name(tensor: Any) -> str:
    """The tensor's name in a graph, else what it is."""
    values = getattr(tensor, "values", tensor)  # of a sparse tensor
    return tensor.name if getattr(values, "_maker", values) is not None else values._label


def _labelled(tensor: Tensor, label: str) -> list[Any]:
    return [f"{label} ({_name(tensor)}) = ", tensor]


# -------------------------------------------------------------------------------------------------------- comparisons
def _comparison(
    public_names: tuple[str, ...],
    symbol: str,
    op_type: str,
    holds: Callable[[Any, Any], Any],
    doc: str,
    reflexive: bool = False,
) -> Callable[..., Operation]:
    name_of = public_names[0]

    def check(
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with name_scope(name, name_of, [x, y, *(data or [])]):
            if reflexive and x is y and current_builder().defers:  # nothing is computed, as in TensorFlow
                return _no_op("NoOp")
            x = convert_to_tensor(x, name="x")
            y = convert_to_tensor(y, None if isinstance(y, Tensor) else x.dtype.base, name="y")
            if data is None and x._maker is None:
                data = _of_values(x, y, symbol, holds, summarize)
            elif data is None:
                data = [f"Condition x {symbol} y did not hold element-wise:", *_labelled(x, "x"), *_labelled(y, "y")]
            return _assert_compared(x, y, op_type, holds, _with_message(data, message), summarize)

    check.__name__ = check.__qualname__ = name_of
    check.__doc__ = _COMPARE.format(doc=doc, name=name_of)
    return public(*public_names)(check)


def _of_values(x: Any, y: Any, symbol: str, holds: Callable[[Any, Any], Any], summarize: int | None) -> list[Any]:
    """What an error shows where ops run at once: the places that differ, and the first elements."""
    a, b = np.asarray(x), np.asarray(y)
    limit = 3 if summarize is None else max(a.size, b.size) if summarize < 0 else summarize
    lines = [f"Condition x {symbol} y did not hold."]
    if a.shape == b.shape and a.ndim:
        places = np.argwhere(np.logical_not(holds(a, b)))[:limit]
        at = tuple(places.T)
        lines += [f"Indices of first {len(places)} different values:", str(places)]
        lines += ["Corresponding x values:", str(a[at]), "Corresponding y values:", str(b[at])]
    for label, array in (("x", a), ("y", b)):
        first = array.reshape(-1)[:limit]
        lines += [f"First {first.size} elements of {label}:", str(first)]
    return [*lines, ""]


def _with_message(data: Any, message: str | None) -> list[Any]:
    return ([message] if message else []) + list(data)


def _assert_compared(
    x: Tensor, y: Tensor, op_type: str, holds: Callable[[Any, Any], Any], data: list[Any], summarize: int | None
) -> Operation:
    condition = reduce_all(build(op_type, x, y))
    known_x, known_y = _known(x), _known(y)
    if known_x is not None and known_y is not None and not np.all(holds(known_x, known_y)):
        raise errors.InvalidArgumentError(None, None, "\n".join(_shown(item, summarize) for item in data))
    return assert_(condition, data, summarize)


def _names(name: str) -> tuple[str, ...]:
    return (name, f"debugging.{name}")


assert_equal = _comparison(
    _names("assert_equal"),
    "==",
    "Equal",
    np.equal,
    "An operation that fails unless ``x == y`` for all elements.",
    reflexive=True,
)
assert_none_equal = _comparison(
    _names("assert_none_equal"),
    "!=",
    "NotEqual",
    np.not_equal,
    "An operation that fails unless ``x != y`` for all elements.",
)
assert_less = _comparison(
    _names("assert_less"), "<", "Less", np.less, "An operation that fails unless ``x < y`` for all elements."
)
assert_less_equal = _comparison(
    _names("assert_less_equal"),
    "<=",
    "LessEqual",
    np.less_equal,
    "An operation that fails unless ``x <= y`` for all elements.",
)
assert_greater = _comparison(
    _names("assert_greater"), ">", "Greater", np.greater, "An operation that fails unless ``x > y`` for all elements."
)
assert_greater_equal = _comparison(
    _names("assert_greater_equal"),
    ">=",
    "GreaterEqual",
    np.greater_equal,
    "An operation that fails unless ``x >= y`` for all elements.",
)


def _signed(
    name_of: str, symbol: str, inner: Callable[..., Operation], zero_first: bool, doc: str
) -> Callable[..., Operation]:
    def check(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Operation:
        with name_scope(name, name_of, [x, *(data or [])]):
            x = convert_to_tensor(x, name="x")
            if data is None:
                data = [message or "", f"Condition x {symbol} 0 did not hold element-wise:", *_labelled(x, "x")]
            else:
                data = _with_message(data, message)
            zero = convert_to_tensor(0, x.dtype.base, name="Const")
            pair = (zero, x) if zero_first else (x, zero)
            return inner(*pair, data=data, summarize=summarize)

    check.__name__ = check.__qualname__ = name_of
    check.__doc__ = f"""{doc}

    Args:
        x: numeric tensor.
        data, summarize, message, name: as for ``tf.assert_less``.
    """
    return public(*_names(name_of))(check)


assert_positive = _signed(
    "assert_positive", ">", assert_less, True, "An operation that fails unless all elements are above 0."
)
assert_negative = _signed(
    "assert_negative", "<", assert_less, False, "An operation that fails unless all elements are below 0."
)
assert_non_negative = _signed(
    "assert_non_negative", ">=", assert_less_equal, True, "An operation that fails if an element is below 0."
)
assert_non_positive = _signed(
    "assert_non_positive", "<=", assert_less_equal, False, "An operation that fails if an element is above 0."
)


@public("assert_near", "debugging.assert_near")
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless ``|x - y| < atol + rtol * |y|`` for all elements.

    Args:
        x, y: floating-point or complex tensors that broadcast against each other.
        rtol, atol: tolerances; ten times the dtype's epsilon if None.
        data, summarize, message, name: as for ``tf.assert_less``.
    """
    with name_scope(name, "assert_near", [x, y, rtol, atol, *(data or [])]):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, None if isinstance(y, Tensor) else x.dtype.base, name="y")
        real = x.dtype.real_dtype
        if not real.is_floating:
            raise TypeError(
                errors.message(
                    f"tensor {x._label} of dtype {x.dtype.name}",
                    "a floating-point tensor",
                    "tf.assert_equal for integers",
                )
            )
        default = 10 * float(np.finfo(real.np).eps) if real != dtypes.bfloat16 else 10 * 2.0**-7
        rtol = convert_to_tensor(default if rtol is None else rtol, real, name="rtol")
        atol = convert_to_tensor(default if atol is None else atol, real, name="atol")
        if data is None:
            heading = f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}"
            data = [message or "", heading, *_labelled(x, "x"), *_labelled(y, "y")]
        else:
            data = _with_message(data, message)

        def size(z: Tensor) -> Tensor:
            return build("ComplexAbs", z, Tout=real) if z.dtype.is_complex else build("Abs", z)

        tolerance = build("Add", atol, build("Mul", rtol, size(y)))
        difference = size(build("Sub", x, y))
        return assert_(reduce_all(build("Less", difference, tolerance)), data, summarize)


# --------------------------------------------------------------------------------------------------------------- rank
def _no_op(name: str) -> Operation:
    return build("NoOp", name=name)


def _rank_tensor(rank: Any, name: str = "rank") -> Tensor:
    rank = convert_to_tensor(rank, name=name)
    assert_type(rank, dtypes.int32)
    return rank


def _assert_rank(
    x: Any,
    rank: Any,
    scope: str,
    words: str,
    op_type: str,
    holds: Callable[[int, int], bool],
    message: str | None,
    data: Any,
    summarize: int | None,
    name: str | None,
) -> Operation:
    with name_scope(name, scope, [x, rank, *(data or [])]):
        x = convert_to_tensor(x, name="x")
        rank = _rank_tensor(rank)
        start = f"{message}.  " if message else ""
        wanted, known = _known(rank), x.get_shape().ndims
        if wanted is not None:
            if wanted.ndim:
                raise ValueError(f"Rank must be a scalar, received rank of shape {shapes.show(wanted.shape)}")
            if known is not None:
                if not holds(known, int(wanted)):
                    raise ValueError(
                        f"{start}Tensor {_name(x)} must have rank {words}{int(wanted)}.  Received rank {known}, "
                        f"shape {x.get_shape()}"
                    )
                return _no_op("static_checks_determined_all_ok")
        if data is None:
            heading = f"Tensor {_name(x)} must have rank{' ' + words.strip() if words else ''}"
            data = [message or "", heading, rank, "Received shape: ", build("Shape", x)]
        condition = build(op_type, build("Rank", x), rank)
        if wanted is None:
            condition = with_dependencies(
                [assert_rank(rank, 0, ["Rank must be a scalar. Received rank: ", rank])], condition
            )
        return assert_(condition, data, summarize)


@public("assert_rank", "debugging.assert_rank")
def assert_rank(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless ``x`` has the given rank; ValueError at once if the static shape says so.

    Args:
        x: numeric tensor.
        rank: int32 scalar.
        data, summarize, message, name: as for ``tf.assert_less``.
    """
    return _assert_rank(x, rank, "assert_rank", "", "Equal", int.__eq__, message, data, summarize, name)


@public("assert_rank_at_least", "debugging.assert_rank_at_least")
def assert_rank_at_least(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless ``x`` has at least the given rank; ValueError at once if it is known not to."""
    return _assert_rank(
        x, rank, "assert_rank_at_least", "at least ", "GreaterEqual", int.__ge__, message, data, summarize, name
    )


@public("assert_rank_in", "debugging.assert_rank_in")
def assert_rank_in(
    x: Any,
    ranks: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless the rank of ``x`` is one of ``ranks`` (int32 scalars)."""
    with name_scope(name, "assert_rank_in", [x, *ranks, *(data or [])]):
        x = convert_to_tensor(x, name="x")
        tensors = [_rank_tensor(rank) for rank in ranks]
        start = f"{message}.  " if message else ""
        wanted, known = [_known(rank) for rank in tensors], x.get_shape().ndims
        if any(value is not None and value.ndim for value in wanted):
            raise ValueError("Rank must be a scalar")
        scalars = [
            assert_rank(tensor, 0, ["Rank must be a scalar. Received rank: ", tensor])
            for tensor, value in zip(tensors, wanted, strict=True)
            if value is None
        ]
        if known is not None and all(value is not None for value in wanted):
            numbers = tuple(int(value) for value in wanted if value is not None)
            if known not in numbers:
                raise ValueError(
                    f"{start}Tensor {_name(x)} must have rank in {numbers}.  "
                    f"Received rank {known}, shape {x.get_shape()}"
                )
            return _no_op("static_checks_determined_all_ok")
        if data is None:
            data = [
                message or "",
                f"Tensor {_name(x)} must have rank in",
                *tensors,
                "Received shape: ",
                build("Shape", x),
            ]
        rank = build("Rank", x)
        condition = build("Equal", rank, tensors[0])
        for other in tensors[1:]:
            condition = build("LogicalOr", condition, build("Equal", rank, other))
        condition = with_dependencies(scalars, condition)
        return assert_(condition, data, summarize)


@public("assert_scalar", "debugging.assert_scalar", "contrib.framework.assert_scalar")
def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """``tensor`` with the static shape of a scalar; ValueError if it is known to be none."""
    with name_scope(name, "assert_scalar", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name=scope)
        shape = tensor.get_shape()
        if shape.ndims is None:
            return build("EnsureShape", tensor, shape=[])
        if shape.ndims != 0:
            raise ValueError(
                f"{message or ''}Expected scalar shape for {_name(tensor)}, saw shape: {shape}.\n"
                + errors.message(f"a tensor of shape {shape}", "a scalar", "tf.squeeze, or an element of it")
            )
        return tensor


# -------------------------------------------------------------------------------------------------------------- types
@public("assert_type", "debugging.assert_type")
def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """A NoOp; TypeError at once unless ``tensor`` has the dtype ``tf_type``."""
    wanted = dtypes.as_dtype(tf_type)
    with name_scope(name, "assert_type", [tensor]):
        tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.dtype != wanted:
            start = f"{message}.  " if message else ""
            raise TypeError(f"{start}{_name(tensor)} must be of type {wanted}; got {tensor.dtype}")
        return _no_op("statically_determined_correct_type")


@public("assert_integer", "debugging.assert_integer")
def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """A NoOp; TypeError at once unless ``x`` has an integer dtype."""
    with name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            start = f"{message}.  " if message else ""
            raise TypeError(f'{start}Expected "x" to be integer type.  Found: {_name(x)} of dtype {x.dtype!r}')
        return _no_op("statically_determined_was_integer")


@public("assert_proper_iterable", "debugging.assert_proper_iterable")
def assert_proper_iterable(values: Any) -> None:
    """TypeError unless ``values`` is an iterable that may hold tensors: no tensor, array or string itself."""
    improper = (Tensor, np.ndarray, bytes, str)
    if isinstance(values, improper) or hasattr(values, "_as_graph_element") or hasattr(values, "dense_shape"):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not isinstance(values, collections.abc.Iterable):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


@public("assert_same_float_dtype", "debugging.assert_same_float_dtype")
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> dtypes.DType:
    """The one floating-point dtype that ``tensors`` have; it must be ``dtype`` if given (float32 if neither is).

    Raises:
        ValueError: dtypes differ, or are not floating-point.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base
    first: Any = None
    for tensor in tensors or []:
        if tensor is None:
            continue
        base = tensor.dtype.base
        if wanted is None:
            wanted, first = base, tensor
        elif base != wanted:
            as_first = f" as {_name(first)}" if first is not None else ""
            raise ValueError(f"{_name(tensor)}, type={base!r}, must be of the same type ({wanted!r}){as_first}.")
    wanted = wanted or dtypes.float32
    if not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted!r}.")
    return wanted


@public("is_numeric_tensor", "debugging.is_numeric_tensor")
def is_numeric_tensor(tensor: Any) -> bool:
    """Whether ``tensor`` is a tensor of numbers (bools and strings are none)."""
    if not isinstance(tensor, Tensor):
        return False
    kind = tensor.dtype.base
    return kind.is_floating or kind.is_integer or kind.is_complex or kind.is_quantized


def _ordered(x: Any, name: str | None, scope: str, op_type: str) -> Tensor:
    with name_scope(name, scope, [x]):
        x = convert_to_tensor(x, name="x")
        if not is_numeric_tensor(x):
            raise TypeError(f"Expected x to be numeric, instead found: {x}")
        flat = build("Reshape", x, [-1])
        difference = flat[1:] - flat[:-1]
        return reduce_all(build(op_type, convert_to_tensor(0, x.dtype.base), difference))


@public("is_non_decreasing", "debugging.is_non_decreasing", "math.is_non_decreasing")
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element of ``x``, read row by row, is smaller than the one before it; a bool scalar."""
    return _ordered(x, name, "is_non_decreasing", "LessEqual")


@public("is_strictly_increasing", "debugging.is_strictly_increasing", "math.is_strictly_increasing")
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element of ``x``, read row by row, is larger than the one before it; a bool scalar."""
    return _ordered(x, name, "is_strictly_increasing", "Less")
