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
from anabranch.ops.shared import host_activations, host_choice, host_reductions
from anabranch.ops.shared.unchecked import Changed

Form = Callable[..., Any]
Maker = Callable[[Sequence[Any], dict[str, Any]], Form | None]
"""Makes a form for operands of these ranks and dtypes, or gives None. The second argument has the op's attributes."""
PLAIN = frozenset(np.dtype(name) for name in ("float32", "float64", "int32", "int64", "bool"))
FLOATS = frozenset(np.dtype(name) for name in ("float32", "float64"))
NUMBERS = PLAIN - {np.dtype(bool)}
_NARROW = frozenset(np.dtype(name) for name in ("uint8", "int8", "uint16", "int16"))
MOVED = PLAIN | _NARROW
"""What is moved without arithmetic: pixels, too."""
_add: Any = host_reductions.total
MOST = 1 << 26
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


def room(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, if an array of it is for a form."""
    if any([size < 0 for size in shape]) or math.prod(shape) > MOST:
        raise Changed
    return shape


def plain(operands: Sequence[Any], dtypes: frozenset[Any] = PLAIN) -> bool:
    """Whether all have one dtype, and that is one of these."""
    return all(value.dtype in dtypes and value.dtype == operands[0].dtype for value in operands)


# --------------------------------------------------------------------------------------------------- element by element
def ufunc(function: Any, dtypes: frozenset[Any] = PLAIN) -> Maker:
    """The maker of an op that is a function of NumPy, element by element, and broadcasts."""

    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        if not plain(operands, dtypes):
            return None
        if function not in _IN_PLACE or len(operands) != 2 or max(value.nbytes for value in operands) < _SMALL:
            return function  # type: ignore[no-any-return]
        return lambda x, y: spare_arrays.arithmetic(function, x, y)

    return make


_IN_PLACE = frozenset([np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum])
_SMALL = spare_arrays.LEAST // 4
floats: Callable[[Any], Maker] = lambda function: ufunc(function, FLOATS)  # noqa: E731


def square(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A number times itself."""
    return (lambda x: np.multiply(x, x)) if plain(operands) else None


def divided(function: Any) -> Maker:
    """The maker of a division of integers by what is positive, or the same each time, and not zero."""

    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        if not plain(operands, NUMBERS - FLOATS) or not np.all(operands[1]):
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
    return (lambda x: np.divide(1, x)) if plain(operands, FLOATS) else None


def reciprocal_root(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """``1 / sqrt(x)``."""
    return (lambda x: np.divide(1, np.sqrt(x))) if plain(operands, FLOATS) else None


def _of_equal_shapes(function: Form) -> Maker:
    def make(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
        if not plain(operands, FLOATS) or not operands[0].ndim:
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
    return host_activations.sigmoid if plain(operands, FLOATS) and operands[0].ndim else None


sigmoid_grad = _of_equal_shapes(host_activations.sigmoid_gradient)
tanh_grad = _of_equal_shapes(host_activations.tanh_gradient)


def add_n(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Terms of one shape."""
    if not plain(operands):
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
    if not plain(operands[1:]):
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
    if not plain(operands[1:], MOVED):
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
    return (lambda x: np.maximum(x, 0)) if operands[0].dtype in NUMBERS else None


def relu_grad(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A gradient where features are positive."""
    if not plain(operands, FLOATS):
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
    if attrs["Truncate"] or x.dtype == dtype or x.dtype not in MOVED or dtype not in PLAIN:
        return None
    if dtype.kind == "b":
        return lambda x: np.not_equal(x, 0)
    return None if x.dtype in FLOATS and dtype not in FLOATS else lambda x: x.astype(dtype)


def l2_loss(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Half the sum of squares."""
    (x,) = operands
    half = x.dtype.type(0.5) if x.dtype in FLOATS else None
    return None if half is None else lambda x: _add(np.multiply(x, x), None) * half


def zeros_like(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Zeros."""
    (value,) = operands
    dtype = value.dtype
    return (lambda x: np.zeros(x.shape, dtype)) if dtype in PLAIN else None


def ones_like(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Ones."""
    (value,) = operands
    dtype = value.dtype
    return (lambda x: np.ones(x.shape, dtype)) if dtype in PLAIN else None


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


sum_of_axes = _reduction(_sum, NUMBERS)
mean = _reduction(_mean, FLOATS)
greatest_of_axes = _reduction(_selection(np.maximum), FLOATS)
least_of_axes = _reduction(_selection(np.minimum), FLOATS)
any_of_axes = _reduction(_selection(np.logical_or), PLAIN - NUMBERS)
all_of_axes = _reduction(_selection(np.logical_and), PLAIN - NUMBERS)


def bias_add(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """A bias along the last dimension."""
    if attrs["data_format"] != "NHWC" or not plain(operands):
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
    if attrs["data_format"] != "NHWC" or dtype not in FLOATS or not axes:
        return None
    return lambda grad: _add(grad, axes, dtype, None, False)


# ------------------------------------------------------------------------------------------------------------ matrices
def matmul(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Two matrices of floats; see ``host_blas`` for who sees to the threads."""
    a, b = operands
    if not plain(operands, FLOATS) or a.ndim != 2 or b.ndim != 2:
        return None
    product: Any = np.matmul
    turned: dict[tuple[bool, bool], Form] = {
        (False, False): product,
        (True, False): lambda a, b: product(a.T, b),
        (False, True): lambda a, b: product(a, b.T),
        (True, True): lambda a, b: product(a.T, b.T),
    }
    return turned[attrs["transpose_a"], attrs["transpose_b"]]


# ------------------------------------------------------------------------------------------------------- distributions
def softmax(operands: Sequence[Any], attrs: dict[str, Any]) -> Form | None:
    """Over the last dimension."""
    if operands[0].dtype not in FLOATS or not operands[0].ndim:
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
    if not plain(operands, FLOATS) or x.ndim != 2 or labels.ndim != 2:
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
    if operands[0].dtype not in FLOATS or not operands[0].ndim:
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
    if x.dtype not in FLOATS or x.ndim != 2 or labels.ndim != 1:
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
