"""What kernels do once their checks have passed, for the ops that the bodies of loops consist of.

A loop that the interpreter runs computes the same ops on operands of the same shapes again and again, and most of the
time of a small op is its checks and the way to its kernel. The makers here give, for operands of certain dtypes and
shapes, a *form*: a function of such operands alone that computes the very same, bit for bit; whoever calls it sees to
it that dtypes and shapes are those (``runtime/interpreter/straight_line.py``). What may still fail, since values decide
it, raises :class:`Changed`: then the kernel is to be asked. An op names its maker in its block (``straight``); one that
has none is run by its kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import shapes, spare_arrays
from anabranch.core.values.host_list import HostList
from anabranch.ops.shared import host_activations, host_blas, host_choice, host_reductions

Form = Callable[..., Any]
Maker = Callable[[Sequence[Any], Sequence[bool], dict[str, Any]], Form | None]
"""Makes a form for operands like these, or gives None. The second argument says which of them are the same at each
call, the third is the op's attributes."""
_PLAIN = frozenset(np.dtype(name) for name in ("float32", "float64", "int32", "int64"))
_FLOATS = frozenset(np.dtype(name) for name in ("float32", "float64"))
_INTEGERS = _PLAIN - _FLOATS
_BOOL = np.dtype(bool)
_ARITHMETIC = frozenset([np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum])
"""Functions whose results have the dtype of their operands."""


class Changed(Exception):
    """Operands are not of the kind that a form is made for, or a check may fail."""


def may_change(make: Maker) -> Maker:
    """Mark the maker of forms that may raise :class:`Changed`."""
    make.may_change = True  # type: ignore[attr-defined]
    return make


# --------------------------------------------------------------------------------------------------- element by element
def _alike(operands: Sequence[Any], dtypes: frozenset[Any]) -> bool:
    """Whether operands are arrays of one of the dtypes, whose shapes broadcast."""
    if any(isinstance(value, HostList) or not hasattr(value, "dtype") for value in operands):
        return False
    if operands[0].dtype not in dtypes or any(value.dtype != operands[0].dtype for value in operands):
        return False
    try:
        np.broadcast_shapes(*[value.shape for value in operands])
    except ValueError:
        return False
    return True


def ufunc(function: Any, dtypes: frozenset[Any] = _PLAIN) -> Maker:
    """The maker of an op that is a function of NumPy, element by element."""

    def make(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        return _in_spare_memory(function, operands) if _alike(operands, dtypes) else None

    return make


def _in_spare_memory(function: Any, operands: Sequence[Any]) -> Form:
    """The function, whose results take memory that is there if they are large."""
    if function not in _ARITHMETIC:
        return function  # type: ignore[no-any-return]
    if operands[0].nbytes < spare_arrays.LEAST and not spare_arrays.is_by_channel(*operands):
        return function  # type: ignore[no-any-return]
    return functools.partial(spare_arrays.arithmetic, function)


def of_arrays(function: Form, of_scalars: Form) -> Any:
    """A function that works in place, and one that does not, for scalars, which have no place."""

    def make(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        if not _alike(operands, _FLOATS) or any(value.shape != operands[0].shape for value in operands):
            return None
        return function if operands[0].ndim else of_scalars

    return make


def floats(function: Any) -> Maker:
    """The maker of an op that is a function of NumPy for floats, element by element."""
    return ufunc(function, _FLOATS)


def relu(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Of numbers."""
    return (lambda x: np.maximum(x, 0)) if _alike(operands, _PLAIN) else None


def quotient(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Of floats."""
    return _in_spare_memory(np.divide, operands) if _alike(operands, _FLOATS) else None


def square(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A number times itself."""
    return (lambda x: np.multiply(x, x)) if _alike(operands, _PLAIN) else None


def integers(function: Any) -> Any:
    """The maker of an integer division by what is the same at each call, and not zero."""

    def make(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        if not known[1] or not _alike(operands, _INTEGERS) or not np.all(operands[1]):
            return None
        return function  # type: ignore[no-any-return]

    return make


def softmax(logarithm: bool) -> Maker:
    """The maker of a softmax of floats over the last dimension, or of its logarithm."""

    def make(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        (x,) = operands
        if x.dtype not in _FLOATS or not x.size:
            return None
        return _log_softmax if logarithm else _softmax

    return make


_greatest: Any = functools.partial(host_reductions.greatest, keepdims=True)
_total: Any = functools.partial(host_reductions.total, keepdims=True)


def _softmax(x: Any) -> Any:
    out = np.subtract(x, _greatest(x))
    np.exp(out, out)
    return np.divide(out, _total(out), out)


def _log_softmax(x: Any) -> Any:
    out = np.subtract(x, _greatest(x))
    total = _total(np.exp(out))
    return np.subtract(out, np.log(total, total), out)


sigmoid = of_arrays(host_activations.sigmoid, lambda x: 1 / (1 + np.exp(-x)))
sigmoid_grad = of_arrays(host_activations.sigmoid_gradient, lambda y, dy: dy * y * (1 - y))
tanh = ufunc(np.tanh, _FLOATS)
tanh_grad = of_arrays(host_activations.tanh_gradient, lambda y, dy: dy * (1 - y * y))


def add_n(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Two terms."""
    if len(operands) != 2 or not _alike(operands, _PLAIN) or operands[0].shape != operands[1].shape:
        return None
    return np.add


def select(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A condition of the operands' shape, a scalar, or one per row."""
    condition, one, other = operands
    if not _alike(operands[1:], _PLAIN) or one.shape != other.shape or isinstance(condition, HostList):
        return None
    if condition.ndim == 0:
        return np.where
    if condition.shape == one.shape:
        return host_choice.choose
    if condition.ndim != 1 or condition.shape != one.shape[:1]:
        return None
    shape = (-1,) + (1,) * (one.ndim - 1)
    return lambda condition, one, other: host_choice.choose(condition.reshape(shape), one, other)


# ------------------------------------------------------------------------------------------------------------- matrices
def _products(product: Form) -> Maker:
    """The maker of products of matrices of one float dtype by ``product``."""
    turned_forms: dict[tuple[bool, bool], Form] = {
        (False, False): product,
        (True, False): lambda a, b: product(a.T, b),
        (False, True): lambda a, b: product(a, b.T),
        (True, True): lambda a, b: product(a.T, b.T),
    }

    def make(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        a, b = operands
        if a.dtype not in _FLOATS or a.dtype != b.dtype or a.ndim != 2 or b.ndim != 2:
            return None
        turned = attrs["transpose_a"], attrs["transpose_b"]
        if a.shape[0 if turned[0] else 1] != b.shape[1 if turned[1] else 0]:
            return None
        return turned_forms[turned]

    return make


matmul = _products(np.matmul)
"""Within :func:`~anabranch.ops.shared.host_blas.enter`."""
matmul_on_threads = _products(host_blas.product)
"""The same on as many threads as the kernel takes."""


def bias_add(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A bias along the last dimension."""
    value, bias = operands
    if attrs["data_format"] != "NHWC" or not _alike(operands, _PLAIN) or bias.shape != value.shape[-1:]:
        return None
    return np.add


def bias_add_grad(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Sum over all dimensions but the last."""
    (grad,) = operands
    if attrs["data_format"] != "NHWC" or grad.dtype not in _FLOATS or grad.ndim < 2:
        return None
    return _reduction(tuple(range(grad.ndim - 1)), grad.dtype, False)


def unchanged(x: Any, *_: Any) -> Any:
    """The first operand as it is."""
    return x


def _reduction(axes: tuple[int, ...], dtype: Any, keep: bool, function: Any = np.add) -> Form:
    reduce: Any = host_reductions.of(function)
    return lambda x, *_: reduce(x, axes, dtype, None, keep)


def _axes(x: Any, given: Any) -> tuple[int, ...] | None:
    """The dimensions of a reduction, in order; None of none, or where they are not right."""
    dimensions = [int(axis) for axis in np.asarray(given).ravel()]
    if not dimensions or any(not -x.ndim <= axis < x.ndim for axis in dimensions):
        return None
    axes = tuple(sorted({axis % x.ndim for axis in dimensions}))
    return axes if len(axes) == len(dimensions) else None


def reduction(function: Any, dtypes: frozenset[Any] = _FLOATS) -> Maker:
    """The maker of a reduction by a function of NumPy, over axes that are the same at each call."""

    def make(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        x, given = operands
        if known[1] and not np.size(given) and isinstance(x, np.ndarray):
            return unchanged
        axes = _axes(x, given) if known[1] and x.dtype in dtypes and x.size else None
        return None if axes is None else _reduction(axes, x.dtype, attrs["keep_dims"], function)

    return make


def mean(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Of floats, over axes that are the same at each call."""
    x, given = operands
    axes = _axes(x, given) if known[1] and x.dtype in _FLOATS and x.size else None
    if axes is None:
        return None
    total = _reduction(axes, x.dtype, attrs["keep_dims"])
    count = x.dtype.type(math.prod(x.shape[axis] for axis in axes))
    return lambda x, *_: np.divide(total(x), count)


# ---------------------------------------------------------------------------------------------------------------- parts
def _axis(value: Any, rank: int) -> int | None:
    if np.size(value) != 1 or not -rank <= int(np.ravel(value)[0]) < rank:
        return None
    return int(np.ravel(value)[0]) % rank


def concat(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Arrays along an axis that is the same at each call."""
    *values, place = operands
    axis = _axis(place, values[0].ndim) if known[-1] else None
    if axis is None or any(value.dtype != values[0].dtype for value in values):
        return None
    other_dims = {(*value.shape[:axis], *value.shape[axis + 1 :]) for value in values}
    if len(other_dims) > 1 or len({value.ndim for value in values}) > 1:
        return None
    join = np.concatenate
    if len(values) == 2:
        return lambda a, b, _: join((a, b), axis)
    return lambda *values: join(values[:-1], axis)


def pack(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Arrays of one shape along a new dimension."""
    first, rank, axis = operands[0], operands[0].ndim, attrs["axis"]
    if any(value.dtype != first.dtype or value.shape != first.shape for value in operands):
        return None
    if not -rank - 1 <= axis <= rank or first.dtype.kind not in "biuf":
        return None
    if not rank:
        dtype = first.dtype
        return lambda *values: np.array(values, dtype)
    new = (slice(None),) * (axis % (rank + 1)) + (None,)
    return lambda *values: np.concatenate([value[new] for value in values], len(new) - 1)


def new_axis(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A dimension of size 1 at a place that is the same at each call."""
    x, place = operands
    axis = _axis(place, x.ndim + 1) if known[1] and isinstance(x, np.ndarray) else None
    if axis is None:
        return None
    new = (slice(None),) * axis + (None,)
    return lambda x, _: x[new]


def tile(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A number of copies side by side, the same at each call."""
    x, given = operands
    times = np.ravel(given).tolist()
    if not known[1] or not isinstance(x, np.ndarray) or len(times) != x.ndim or min(times, default=0) < 1:
        return None
    apart, whole, result = [], [], []
    for size, count in zip(x.shape, times, strict=True):
        apart += [1, size]
        whole += [count, size]
        result.append(count * size)
    return lambda x, _: np.broadcast_to(x.reshape(apart), whole).reshape(result)


@may_change
def rows(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Rows whose numbers are in range."""
    params, _, place = operands
    if not known[2] or not isinstance(params, np.ndarray) or not params.ndim or attrs["batch_dims"]:
        return None
    if _axis(place, params.ndim) != 0 or params.dtype.kind not in "biuf":
        return None

    def take(params: Any, indices: Any, _: Any) -> Any:
        if indices.size and indices.min() < 0:
            raise Changed
        try:
            return params.take(indices, 0)
        except IndexError:
            raise Changed from None

    return take


def split(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Equal parts along an axis that is the same at each call."""
    place, x = operands
    axis = _axis(place, x.ndim) if known[0] else None
    if axis is None or x.shape[axis] % attrs["num_split"]:
        return None
    if attrs["num_split"] == 1:  # a single output is not a list
        return lambda _, x: x
    size = x.shape[axis] // attrs["num_split"]
    before = (slice(None),) * axis
    parts = [(*before, slice(i * size, (i + 1) * size)) for i in range(attrs["num_split"])]
    return lambda _, x: [x[part] for part in parts]


def reshape(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A shape that is the same at each call."""
    x, given = operands
    if not known[1] or isinstance(x, HostList) or not x.size:
        return None
    sizes = np.ravel(given).tolist()
    rest = x.size // abs(math.prod(sizes)) if 0 not in sizes else 0
    wanted = tuple([rest if size == -1 else size for size in sizes])
    if sizes.count(-1) > 1 or min(wanted, default=0) < 0 or math.prod(wanted) != x.size:
        return None
    return unchanged if wanted == x.shape else lambda x, _: x.reshape(wanted)


def window(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A part whose place and size are the same at each call."""
    x, begin, size = operands
    if not (known[1] and known[2]) or not len(begin) == len(size) == x.ndim:
        return None
    part = []
    for whole, start, count in zip(x.shape, begin.tolist(), size.tolist(), strict=True):
        end = whole if count == -1 else start + count
        if not 0 <= start <= end <= whole:
            return None
        part.append(slice(start, end))
    where = tuple(part)
    return lambda x, *_: x[where]


# ---------------------------------------------------------------------------------------------------------------- lists
def _may_hold(value: Any, attrs: dict[str, Any], shape: tuple[int, ...]) -> bool:
    return (
        isinstance(value, HostList)
        and value.element_dtype is attrs["element_dtype"]
        and value.element_dtype.np is not None
        and shapes.is_compatible(value.element_shape, shape)
    )


def push(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A list that has no limit."""
    value, item = operands
    return HostList.push if _may_hold(value, attrs, item.shape) and value.limit < 0 else None


@may_change
def pop(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """The last element, of a shape that was seen."""
    value = operands[0]
    item = value.get(value.length - 1) if isinstance(value, HostList) and value.length else None
    if item is None or not _may_hold(value, attrs, item.shape):
        return None
    shape = item.shape

    def take(value: HostList, _: Any) -> Any:
        if not value._length:
            raise Changed
        element = value.pop()
        item = element[1]
        if item is None or item.shape != shape:
            raise Changed
        return element

    return take if _is_shape(operands[1], known[1], shape) else None


def _is_shape(given: Any, known: bool, shape: tuple[int, ...]) -> bool:
    """Whether an operand that says what shape elements have fits elements of a shape, now and at each call."""
    array = np.asarray(given)
    if not known or array.ndim > 1:
        return False
    if array.ndim == 0 and int(array) < 0:
        return True
    wanted = tuple([None if item < 0 else item for item in array.ravel().tolist()])
    return shapes.is_compatible(wanted, shape)


@may_change
def get_item(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """An element, of a shape that was seen."""
    value, index, given = operands
    place = int(index)
    item = value.get(place) if isinstance(value, HostList) and 0 <= place < value.length else None
    if item is None or not _may_hold(value, attrs, item.shape) or not _is_shape(given, known[2], item.shape):
        return None
    shape = item.shape

    def get(value: HostList, index: Any, _: Any) -> Any:
        place = int(index)
        if not 0 <= place < value._length:
            raise Changed
        item = value.get(place)
        if item is None or item.shape != shape:
            raise Changed
        return item

    return get


@may_change
def set_item(operands: Sequence[Any], known: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """An index inside the list."""
    value, _, item = operands
    if not _may_hold(value, attrs, item.shape):
        return None

    def put(value: HostList, index: Any, item: Any) -> Any:
        place = int(index)
        if not 0 <= place < value._length:
            raise Changed
        return value.set(place, item)

    return put


logical_and = ufunc(np.logical_and, frozenset((_BOOL,)))
logical_or = ufunc(np.logical_or, frozenset((_BOOL,)))
logical_not = ufunc(np.logical_not, frozenset((_BOOL,)))
any_of_axes = reduction(np.logical_or, frozenset((_BOOL,)))
all_of_axes = reduction(np.logical_and, frozenset((_BOOL,)))
exact = frozenset((*_PLAIN, _BOOL))
"""What is compared for equality by NumPy's function."""
