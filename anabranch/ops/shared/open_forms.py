"""Forms of kernels for operands whose sizes change from step to step.

A form of ``unchecked.py`` is for operands of certain shapes. One of this module is for operands of certain *ranks* (and
dtypes, which a graph fixes) and any sizes: sparse features, ragged rows, batches that are never the same. Sizes that
others are computed from (the shape of a reshape, the axes of a sum) come as tuples of Python integers, at the operands
that :func:`takes_sizes` names. A form computes what the kernel does, bit for bit, or raises
:class:`~anabranch.ops.shared.unchecked.Changed` (or ``ValueError``): then the kernel is asked, and tells what is wrong.
An op names its maker in its block (``any_size``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import spare_arrays
from anabranch.ops.shared import host_activations, host_choice, host_reductions, row_sums
from anabranch.ops.shared.unchecked import Changed

Form = Callable[..., Any]
Maker = Callable[[Sequence[Any], dict[str, Any]], Form | None]
"""Makes a form for operands of these ranks and dtypes, or gives None. The second argument has the op's attributes."""
_PLAIN = frozenset(np.dtype(name) for name in ("float32", "float64", "int32", "int64", "bool"))
_FLOATS = frozenset(np.dtype(name) for name in ("float32", "float64"))
_NUMBERS = _PLAIN - {np.dtype(bool)}
_NARROW = frozenset(np.dtype(name) for name in ("uint8", "int8", "uint16", "int16"))
_MOVED = _PLAIN | _NARROW
"""What is moved without arithmetic: pixels, too."""
_add: Any = host_reductions.total
_MOST = 1 << 26
"""Elements beyond which an array is left to the kernel, which asks whether there is room."""


def takes_sizes(*positions: int, settled: Sequence[int] | None = None) -> Callable[[Maker], Maker]:
    """Mark the maker of forms that take these operands as tuples of integers.

    Of them those in ``settled`` (None: all) are shapes or axes, which follow from shapes even where they come as data.
    """

    def mark(make: Maker) -> Maker:
        make.sizes = positions  # type: ignore[attr-defined]
        make.settled = positions if settled is None else settled  # type: ignore[attr-defined]
        return make

    return mark


def _plain(operands: Sequence[Any], dtypes: frozenset[Any] = _PLAIN) -> bool:
    return all(value.dtype in dtypes and value.dtype == operands[0].dtype for value in operands)


# --------------------------------------------------------------------------------------------------- element by element
def ufunc(function: Any, dtypes: frozenset[Any] = _PLAIN) -> Maker:
    """The maker of an op that is a function of NumPy, element by element, and broadcasts."""

    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        if not _plain(operands, dtypes):
            return None
        if function not in _IN_PLACE or len(operands) != 2 or max(value.nbytes for value in operands) < _SMALL:
            return function  # type: ignore[no-any-return]
        return lambda x, y: spare_arrays.arithmetic(function, x, y)

    return make


_IN_PLACE = frozenset([np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum])
_SMALL = spare_arrays.LEAST // 4
floats: Callable[[Any], Maker] = lambda function: ufunc(function, _FLOATS)  # noqa: E731


def square(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A number times itself."""
    return (lambda x: np.multiply(x, x)) if _plain(operands) else None


def divided(function: Any) -> Maker:
    """The maker of a division of integers by what is positive, or the same each time, and not zero."""

    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        if not _plain(operands, _NUMBERS - _FLOATS) or not np.all(operands[1]):
            return None
        if np.all(operands[1] > 0):
            return by_positive
        form = lambda x, y: function(x, y)  # noqa: E731
        form.fixes = (1,)  # type: ignore[attr-defined]
        return form

    def by_positive(x: Any, y: Any) -> Any:
        if not np.greater(y, 0).all():
            raise Changed
        return function(x, y)

    return make


def reciprocal(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """``1 / x``."""
    return (lambda x: np.divide(1, x)) if _plain(operands, _FLOATS) else None


def reciprocal_root(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """``1 / sqrt(x)``."""
    return (lambda x: np.divide(1, np.sqrt(x))) if _plain(operands, _FLOATS) else None


def _of_equal_shapes(function: Form) -> Maker:
    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        if not _plain(operands, _FLOATS) or not operands[0].ndim:
            return None

        def call(*values: Any) -> Any:
            shape = values[0].shape
            if any([value.shape != shape for value in values]):
                raise Changed
            return function(*values)

        return call

    return make


def sigmoid(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """``1 / (1 + exp(-x))``."""
    return host_activations.sigmoid if _plain(operands, _FLOATS) and operands[0].ndim else None


sigmoid_grad = _of_equal_shapes(host_activations.sigmoid_gradient)
tanh_grad = _of_equal_shapes(host_activations.tanh_gradient)


def add_n(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Terms of one shape."""
    if not _plain(operands):
        return None

    def add(*values: Any) -> Any:
        first = values[0]
        shape = first.shape
        if any([value.shape != shape for value in values]):
            raise Changed
        for value in values[1:]:
            first = np.add(first, value)
        return first

    return add


def select(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """By a condition of the shape of the others, or one for each of their rows."""
    condition, one, _ = operands
    if not _plain(operands[1:]):
        return None

    def choose(condition: Any, one: Any, other: Any) -> Any:
        if not condition.shape == one.shape == other.shape:
            raise Changed
        return host_choice.choose(condition, one, other)

    if condition.ndim == one.ndim:
        return choose
    shape = (-1,) + (1,) * (one.ndim - 1)

    def choose_rows(condition: Any, one: Any, other: Any) -> Any:
        if one.shape != other.shape or condition.shape != one.shape[:1]:
            raise Changed
        return host_choice.choose(condition.reshape(shape), one, other)

    return choose_rows if condition.ndim == 1 and one.ndim else None


def select_broadcast(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """By a condition, all three broadcast; NumPy refuses what does not fit."""
    if not _plain(operands[1:], _MOVED):
        return None
    if operands[0].ndim:
        return host_choice.choose

    def one_of(condition: Any, one: Any, other: Any) -> Any:
        if one.shape != other.shape:
            raise Changed
        return one if condition else other

    return one_of


def relu(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """What is positive."""
    return (lambda x: np.maximum(x, 0)) if operands[0].dtype in _NUMBERS else None


def relu_grad(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A gradient where features are positive."""
    if not _plain(operands, _FLOATS):
        return None

    def chosen(grad: Any, features: Any) -> Any:
        if grad.shape != features.shape:
            raise Changed
        return host_choice.or_zero(np.greater(features, 0), grad)

    return chosen


def cast(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """From integers of any width, and between integers and floats, but from floats to integers, which is cut off."""
    (x,) = operands
    dtype = attrs["DstT"].np
    if attrs["Truncate"] or x.dtype == dtype or x.dtype not in _MOVED or dtype not in _PLAIN:
        return None
    if dtype.kind == "b":
        return lambda x: np.not_equal(x, 0)
    return None if x.dtype in _FLOATS and dtype not in _FLOATS else lambda x: x.astype(dtype)


def l2_loss(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Half the sum of squares."""
    (x,) = operands
    half = x.dtype.type(0.5) if x.dtype in _FLOATS else None
    return None if half is None else lambda x: _add(np.multiply(x, x), None) * half


def zeros_like(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Zeros."""
    (value,) = operands
    dtype = value.dtype
    return (lambda x: np.zeros(x.shape, dtype)) if dtype in _PLAIN else None


def ones_like(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Ones."""
    (value,) = operands
    dtype = value.dtype
    return (lambda x: np.ones(x.shape, dtype)) if dtype in _PLAIN else None


# ---------------------------------------------------------------------------------------------------------- reductions
def _axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    found = tuple(sorted([axis % rank for axis in axes if -rank <= axis < rank]))
    if len(set(found)) != len(axes):
        raise Changed
    return found


def _reduction(reduce: Callable[[Any, tuple[int, ...], bool], Any], dtypes: frozenset[Any]) -> Maker:
    @takes_sizes(1)
    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        x = operands[0]
        rank, keep = x.ndim, attrs["keep_dims"]
        if x.dtype not in dtypes:
            return None
        return lambda x, axes: reduce(x, _axes(axes, rank), keep) if axes else x

    return make


def _sum(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    return _add(x, axes, x.dtype, None, keep)


def _mean(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    shape = x.shape
    return _add(x, axes, x.dtype, None, keep) / x.dtype.type(math.prod([shape[axis] for axis in axes]))


def _selection(function: Any) -> Callable[[Any, tuple[int, ...], bool], Any]:
    """A reduction by a function without a neutral element."""

    reduction = host_reductions.of(function)

    def reduce(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        if not x.size:
            raise Changed
        return reduction(x, axes, None, None, keep)

    return reduce


sum_of_axes = _reduction(_sum, _NUMBERS)
mean = _reduction(_mean, _FLOATS)
greatest_of_axes = _reduction(_selection(np.maximum), _FLOATS)
least_of_axes = _reduction(_selection(np.minimum), _FLOATS)
any_of_axes = _reduction(_selection(np.logical_or), _PLAIN - _NUMBERS)
all_of_axes = _reduction(_selection(np.logical_and), _PLAIN - _NUMBERS)


def bias_add(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A bias along the last dimension."""
    if attrs["data_format"] != "NHWC" or not _plain(operands):
        return None

    def add(value: Any, bias: Any) -> Any:
        if value.shape[-1:] != bias.shape:
            raise Changed
        return np.add(value, bias)

    return add


def bias_add_grad(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Sum over all dimensions but the last."""
    (grad,) = operands
    axes, dtype = tuple(range(grad.ndim - 1)), grad.dtype
    if attrs["data_format"] != "NHWC" or dtype not in _FLOATS or not axes:
        return None
    return lambda grad: _add(grad, axes, dtype, None, False)


# ------------------------------------------------------------------------------------------------------------ matrices
def matmul(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Two matrices of floats; see ``host_blas`` for who sees to the threads."""
    a, b = operands
    if not _plain(operands, _FLOATS) or a.ndim != 2 or b.ndim != 2:
        return None
    product: Any = np.matmul
    turned: dict[tuple[bool, bool], Form] = {
        (False, False): product,
        (True, False): lambda a, b: product(a.T, b),
        (False, True): lambda a, b: product(a, b.T),
        (True, True): lambda a, b: product(a.T, b.T),
    }
    return turned[attrs["transpose_a"], attrs["transpose_b"]]


# --------------------------------------------------------------------------------------------------------------- sizes
def _room(shape: tuple[int, ...]) -> tuple[int, ...]:
    if any([size < 0 for size in shape]) or math.prod(shape) > _MOST:
        raise Changed
    return shape


def softmax(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Over the last dimension."""
    if operands[0].dtype not in _FLOATS or not operands[0].ndim:
        return None

    def shares(x: Any) -> Any:
        if not x.size:
            raise Changed
        out = np.subtract(x, _greatest(x, -1, None, None, True))
        np.exp(out, out)
        return np.divide(out, _add(out, -1, None, None, True), out)

    return shares


_greatest: Any = host_reductions.greatest


def cross_entropy(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Of logits and a distribution for each of their rows; the loss and its gradient."""
    x, labels = operands
    if not _plain(operands, _FLOATS) or x.ndim != 2 or labels.ndim != 2:
        return None
    zero = x.dtype.type(0)

    def entropy(x: Any, labels: Any) -> Any:
        if x.shape != labels.shape or not x.size:
            raise Changed
        shifted = np.subtract(x, _greatest(x, -1, None, None, True))
        out = np.exp(shifted)
        total = _add(out, -1, None, None, True)
        terms = np.subtract(np.log(total), shifted, shifted)
        np.multiply(labels, terms, terms)
        terms[np.equal(labels, zero)] = zero  # a label of 0 takes no part, even where the log probability is -inf
        np.divide(out, total, out)
        return _add(terms, -1), np.subtract(out, labels, out)

    return entropy


def log_softmax(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Over the last dimension."""
    if operands[0].dtype not in _FLOATS or not operands[0].ndim:
        return None

    def logarithms(x: Any) -> Any:
        if not x.size:
            raise Changed
        out = np.subtract(x, _greatest(x, -1, None, None, True))
        total = _add(np.exp(out), -1, None, None, True)
        return np.subtract(out, np.log(total, total), out)

    return logarithms


def index_cross_entropy(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Of logits and one class for each of their rows; the loss and its gradient."""
    x, labels = operands
    if x.dtype not in _FLOATS or x.ndim != 2 or labels.ndim != 1:
        return None
    unsigned = np.dtype(f"u{labels.dtype.itemsize}")

    def entropy(x: Any, labels: Any) -> Any:
        batch, classes = x.shape
        if labels.shape != (batch,) or not x.size or np.maximum.reduce(labels.view(unsigned)) >= classes:
            raise Changed
        out = np.subtract(x, _greatest(x, 1, None, None, True))
        at, flat = labels + np.arange(0, batch * classes, classes), out.reshape(-1)
        chosen = flat.take(at)
        np.exp(out, out)
        total = _add(out, 1, None, None, True)
        np.divide(out, total, out)
        flat[at] -= 1
        return np.log(total[:, 0]) - chosen, out

    return entropy


def pack(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Arrays of one shape side by side."""
    dtype, rank = operands[0].dtype, operands[0].ndim
    if (not _plain(operands, _MOVED) and dtype.kind != "O") or any(value.ndim != rank for value in operands):
        return None
    if not -rank - 1 <= attrs["axis"] <= rank:
        return None
    axis = attrs["axis"] % (rank + 1)
    if not rank and dtype.kind != "O":
        return lambda *values: np.array(values, dtype)
    if len(operands) == 1:
        return lambda value: value.reshape((*value.shape[:axis], 1, *value.shape[axis:]))
    places = [(*(slice(None),) * axis, i, ...) for i in range(len(operands))]

    def packed(*values: Any) -> Any:
        shape = values[0].shape
        out = spare_arrays.empty(_room((*shape[:axis], len(values), *shape[axis:])), dtype)
        for place, value in zip(places, values, strict=True):
            if value.shape != shape:
                raise Changed
            out[place] = value
        return out

    return packed


@takes_sizes(1)
def reshape(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """NumPy refuses what the kernel does, and sizes of -1 where nothing is left."""
    return lambda x, shape: x.reshape(shape)


@takes_sizes(0)
def fill(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """One number everywhere."""
    dtype, rank = operands[1].dtype, operands[1].ndim
    if rank or dtype not in _PLAIN:
        return None

    def filled(shape: tuple[int, ...], value: Any) -> Any:
        out = np.empty(_room(shape), dtype)
        out.fill(value)
        return out

    return filled


@takes_sizes(1)
def broadcast_to(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Small arrays are written out: what reads a view of them takes longer than that."""
    x, _ = operands
    dtype = x.dtype
    if dtype not in _PLAIN:
        return None

    def spread(x: Any, shape: tuple[int, ...]) -> Any:
        if x.shape == shape:
            return x
        if x.ndim > len(shape) or math.prod(shape) > _LARGE:
            raise Changed
        out = np.empty(_room(shape), dtype)
        out[...] = x
        return out

    return spread if operands[0].size < _LARGE else None


_LARGE = 1 << 16


def expand_dims(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """One dimension more, at a place that a form is for."""
    x, axis = operands
    if np.size(axis) != 1:
        return None
    place, rank = int(np.ravel(axis)[0]), x.ndim
    if not -rank - 1 <= place <= rank:
        return None
    place %= rank + 1
    at = (*(slice(None),) * place, None, ...)

    def expand(x: Any, axis: Any) -> Any:
        return x[at]

    expand.fixes = (1,)  # type: ignore[attr-defined]
    return expand


def squeeze(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Without dimensions that are named; which are of size 1 if none is named, sizes tell each time."""
    rank = operands[0].ndim
    if not attrs["squeeze_dims"]:
        return None
    chosen = tuple(sorted({dim % rank for dim in attrs["squeeze_dims"] if -rank <= dim < rank}))
    return (lambda x: x.squeeze(chosen)) if chosen else None


def concat(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Arrays along an axis that a form is for."""
    *values, place = operands
    first = values[0]
    if np.size(place) != 1 or any(value.dtype != first.dtype or value.ndim != first.ndim for value in values):
        return None
    axis, join = int(np.ravel(place)[0]), np.concatenate
    if not -first.ndim <= axis < first.ndim or first.dtype not in _MOVED:
        return None

    def joined(*values: Any) -> Any:
        return join(values[:-1], axis)

    joined.fixes = (len(values),)  # type: ignore[attr-defined]
    return joined


def split(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Equal parts along an axis that a form is for."""
    place, x = operands
    count = attrs["num_split"]
    if count == 1 or np.size(place) != 1 or not -x.ndim <= int(np.ravel(place)[0]) < x.ndim:
        return None
    axis = int(np.ravel(place)[0]) % x.ndim
    before = (slice(None),) * axis

    def parts(_: Any, x: Any) -> Any:
        size, rest = divmod(x.shape[axis], count)
        if rest:
            raise Changed
        return [x[(*before, slice(i * size, (i + 1) * size))] for i in range(count)]

    parts.fixes = (0,)  # type: ignore[attr-defined]
    return parts


@takes_sizes(1)
def tile(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A number of copies side by side."""
    if operands[0].dtype not in _MOVED:
        return None

    def copies(x: Any, times: tuple[int, ...]) -> Any:
        apart: list[int] = []
        whole: list[int] = []
        result = []
        for size, count in zip(x.shape, times, strict=True):
            apart += [1, size]
            whole += [count, size]
            result.append(count * size)
        if min(times, default=0) < 1:
            raise Changed
        return np.broadcast_to(x.reshape(apart), whole).reshape(_room(tuple(result)))

    return copies


@takes_sizes(1)
def pad(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Zeros, or another number, around an array."""
    dtype, rank = operands[0].dtype, operands[0].ndim
    if dtype not in _MOVED or (len(operands) > 2 and operands[2].ndim):
        return None

    def padded(x: Any, sizes: tuple[int, ...], *value: Any) -> Any:
        shape = x.shape
        if len(sizes) != 2 * rank or min(sizes, default=0) < 0:
            raise Changed
        whole = tuple([sizes[2 * i] + size + sizes[2 * i + 1] for i, size in enumerate(shape)])
        if whole == shape:
            return x
        out = spare_arrays.empty(_room(whole), dtype)
        out.fill(value[0] if value else 0)
        out[tuple([slice(sizes[2 * i], sizes[2 * i] + size) for i, size in enumerate(shape)])] = x
        return out

    return padded


@takes_sizes(1, 2, settled=[2])
def window(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A part of an array."""

    def part(x: Any, begin: tuple[int, ...], size: tuple[int, ...]) -> Any:
        index = []
        for whole, start, count in zip(x.shape, begin, size, strict=True):
            end = whole if count == -1 else start + count
            if not 0 <= start <= end <= whole:
                raise Changed
            index.append(slice(start, end))
        return x[tuple(index)]

    return part


def _index(attrs: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    masks = [attrs[name] for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")]
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks

    def index(begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Any, ...]:
        if not len(begin) == len(end) == len(strides) or 0 in strides:
            raise Changed
        parts: list[Any] = []
        for i, step in enumerate(strides):
            bit = 1 << i
            if ellipsis_mask & bit:
                parts.append(...)
            elif new_axis_mask & bit:
                parts.append(None)
            elif shrink_mask & bit:
                if step < 0:
                    raise Changed
                parts.append(begin[i])
            else:
                start, stop = None if begin_mask & bit else begin[i], None if end_mask & bit else end[i]
                parts.append(slice(start, stop, step))
        return tuple(parts)

    return index


def _with_the_rest(index: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    return lambda *spec: (*index(*spec), ...)


@takes_sizes(1, 2, 3, settled=[])
def strided(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A strided slice: NumPy's, whose bounds are cut off where TensorFlow cuts them off."""
    x = operands[0]
    if x.dtype not in _MOVED and x.dtype != object:
        return None
    # What is left of an array of objects is an array, too, and not the one object in it.
    index = _index(attrs) if x.dtype != object or attrs["ellipsis_mask"] else _with_the_rest(_index(attrs))
    kept: dict[Any, Any] = {}

    def part(x: Any, *spec: tuple[int, ...]) -> Any:
        at = kept.get(spec)
        if at is None:
            at = index(*spec)
            if len(kept) < 64:
                kept[spec] = at
        try:
            return x[at]
        except IndexError:
            raise Changed from None

    return part


@takes_sizes(0, 1, 2, 3, settled=[0])
def strided_gradient(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Zeros around a strided slice."""
    dtype = operands[4].dtype
    if dtype not in _PLAIN:
        return None
    index = _index(attrs)

    def put(shape: tuple[int, ...], begin: Any, end: Any, strides: Any, dy: Any) -> Any:
        out = np.zeros(_room(shape), dtype)
        try:
            at = index(begin, end, strides)
            if np.shape(out[at]) != dy.shape:
                raise Changed
            out[at] = dy
        except IndexError:
            raise Changed from None
        return out

    return put


# ---------------------------------------------------------------------------------------------------------------- rows
def gather(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Slices of a dimension that a form is for."""
    params, indices, *rest = operands
    if params.dtype not in _MOVED or not params.ndim or attrs.get("batch_dims", 0):
        return None
    if rest and (np.size(rest[0]) != 1 or not -params.ndim <= int(np.ravel(rest[0])[0]) < params.ndim):
        return None
    axis = int(np.ravel(rest[0])[0]) % params.ndim if rest else 0
    unsigned = np.dtype(f"u{indices.dtype.itemsize}")

    def slices(params: Any, indices: Any, *_: Any) -> Any:
        if not indices.size or np.maximum.reduce(indices.view(unsigned), None) >= params.shape[axis]:
            raise Changed
        return params.take(indices, axis)

    slices.fixes = (2,) if rest else ()  # type: ignore[attr-defined]
    return slices


def unsorted_sum(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Sums of rows by a vector of numbers."""
    data, ids, count = operands
    if data.dtype not in _PLAIN or data.dtype == bool or ids.ndim != 1 or count.ndim:
        return None
    unsigned = np.dtype(f"u{ids.dtype.itemsize}")

    def sums(data: Any, ids: Any, count: Any) -> Any:
        rows = int(count)
        if len(data) != len(ids) or not len(ids) or rows < 0:
            raise Changed
        if np.maximum.reduce(ids.view(unsigned)) >= rows:
            raise Changed
        out = np.zeros(_room((rows, *data.shape[1:])), data.dtype)
        row_sums.add_to_rows(out, ids, data)
        return out

    return sums
