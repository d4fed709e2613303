"""Public functions about shapes, constants of a shape, and joins: `tf.shape`, `tf.zeros`, `tf.stack` and their kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dimensions, dtypes, elements, shapes
from anabranch.ops.array.dense_rows import dense_rows

_SMALL = 1000  # elements below which zeros and ones are constants, as in TensorFlow


def either(new: Any, old: Any, new_name: str, old_name: str, function: str) -> Any:
    """The argument that was given under its new or its old name; ValueError if both were."""
    if old is None:
        return new
    if new is not None:
        raise ValueError(
            f"Cannot specify both '{new_name}' and '{old_name}'\n"
            + errors.message(
                f"{function}({new_name}={new!r}, {old_name}={old!r})",
                "one of the two arguments, which mean the same",
                f"{new_name}=...",
            )
        )
    return old


def _tensors(*values: Any) -> list[Tensor]:
    """The tensors among values and lists of values, for name scopes."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += [item for item in value if isinstance(item, Tensor)]
    return tensors


def _is_sparse(value: Any) -> bool:
    return not isinstance(value, Tensor) and all(hasattr(value, part) for part in ("indices", "values", "dense_shape"))


# -------------------------------------------------------------------------------------------------------------- shapes
@public("shape")
def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Any:
    """The shape of `input` as an integer vector `[rank]`; a constant if it is known while the graph is built.

    Example:
        >>> import anabranch as tf
        >>> tf.shape(tf.placeholder(tf.float32, [None, 3])).shape.as_list()
        [2]
    """
    return _shape(input, name, out_type, optimize=True)


def _shape(input: Any, name: str | None, out_type: Any, optimize: bool) -> Any:
    with name_scope(name, "Shape", _tensors(input)) as scope:
        if _is_sparse(input):
            return build("Cast", input.dense_shape, DstT=out_type)
        tensor = convert_to_tensor(input)
        if optimize and shapes.is_static(tensor._shape):
            return constant(np.array(tensor._shape, np.int64), out_type, name=scope)
        return build("Shape", tensor, out_type=out_type, name=scope)


@public("shape_n")
def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list[Any]:
    """The shapes of a list of tensors of one dtype, each an integer vector."""
    return build("ShapeN", list(input), out_type=out_type, name=name)


@public("size")
def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Any:
    """The number of elements of `input`, a scalar; a constant if it is known while the graph is built."""
    with name_scope(name, "Size", _tensors(input)) as scope:
        if _is_sparse(input):
            return build("Prod", build("Cast", input.dense_shape, DstT=out_type), [0], name=scope)
        tensor = convert_to_tensor(input)
        count = shapes.num_elements(tensor._shape)
        if count is not None:
            return constant(count, out_type, name=scope)
        return build("Size", tensor, out_type=out_type, name=scope)


@public("rank")
def rank(input: Any, name: str | None = None) -> Any:
    """The number of dimensions of `input`, a scalar; a constant if it is known while the graph is built."""
    with name_scope(name, "Rank", _tensors(input)) as scope:
        if _is_sparse(input):
            return build("Size", input.dense_shape, name=scope)
        tensor = convert_to_tensor(input)
        if tensor._shape is not None:
            return constant(len(tensor._shape), dtypes.int32, name=scope)
        return build("Rank", tensor, name=scope)


@public("reshape", "manip.reshape")
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The elements of `tensor` in row-major order in `shape`, of which one dimension may be -1: whatever is left.

    Raises:
        ValueError: the number of elements does not fit.

    Example:
        >>> import anabranch as tf
        >>> tf.reshape(tf.zeros([6, 4]), [-1, 3]).shape.as_list()
        [8, 3]
    """
    return build("Reshape", tensor, shape, name=name)


@public("expand_dims")
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """`input` with a dimension of size 1 put in at `axis` (old name: `dim`); -1 puts it last."""
    axis = either(axis, dim, "axis", "dim", "expand_dims")
    if axis is None:
        raise ValueError(
            "Must specify an axis argument to tf.expand_dims()\n"
            + errors.message("no axis", "where the new dimension goes", "tf.expand_dims(x, -1)")
        )
    return build("ExpandDims", input, axis, name=name)


@public("squeeze")
def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """`input` without its dimensions of size 1: those in `axis` (old name: `squeeze_dims`), or all of them if None."""
    axis = either(axis, squeeze_dims, "axis", "squeeze_dims", "squeeze")
    if axis is None:
        axis = []
    if np.isscalar(axis):
        axis = [axis]
    return build("Squeeze", input, squeeze_dims=axis, name=name)


@public("transpose")
def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Any:
    """`a` with its dimensions in the order `perm`, reversed if None; conjugated too if `conjugate`.

    Example:
        >>> import anabranch as tf
        >>> tf.transpose(tf.zeros([2, 3, 5]), [1, 0, 2]).shape.as_list()
        [3, 2, 5]
    """
    with name_scope(name, "transpose", _tensors(a, perm)) as scope:
        a = convert_to_tensor(a, name="a")
        conjugate = conjugate and a.dtype.base.is_complex
        if perm is None:
            if a._shape is None:
                count = build("Rank", a)
                perm = build("Sub", build("Sub", count, 1, name="sub"), build("Range", 0, count, 1), name="sub")
            else:
                perm = np.arange(len(a._shape) - 1, -1, -1, dtype=np.int32)
        return build("ConjugateTranspose" if conjugate else "Transpose", a, perm, name=scope)


@public("matrix_transpose", "linalg.matrix_transpose", "linalg.transpose")
def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Any:
    """`a` `[..., n, m]` with its last two dimensions exchanged: `[..., m, n]`; conjugated too if `conjugate`.

    Raises:
        ValueError: the rank is less than 2.
    """
    with name_scope(name, "matrix_transpose", _tensors(a)):
        a = convert_to_tensor(a, name="a")
        raw = a._shape
        if raw is None:
            count = build("Rank", a)
            last = build("Pack", [build("Sub", count, 1), build("Sub", count, 2)])
            perm: Any = build("ConcatV2", [build("Range", 0, build("Sub", count, 2), 1), last], 0)
        else:
            if len(raw) < 2:
                raise ValueError(
                    f"Argument 'a' should be a (batch) matrix, with rank >= 2.  Found: {shapes.show(raw)}\n"
                    + errors.message(f"a tensor of shape {shapes.show(raw)}", "rank 2 or more", "tf.expand_dims(a, 0)")
                )
            perm = [*range(len(raw) - 2), len(raw) - 1, len(raw) - 2]
        return transpose(a, perm, conjugate=conjugate)


@public("ensure_shape")
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Any:
    """`x`; the step fails unless its shape fits `shape`, which the result's static shape is merged with."""
    return build("EnsureShape", x, shape=shape, name=name)


@public("broadcast_static_shape")
def broadcast_static_shape(shape_x: Any, shape_y: Any) -> shapes.TensorShape:
    """The static shape to which two static shapes broadcast.

    Raises:
        ValueError: they do not.
    """
    x, y = shapes.as_raw(shape_x), shapes.as_raw(shape_y)
    try:
        return shapes.TensorShape(shapes.broadcast(x, y))
    except ValueError as problem:
        words = f"Incompatible shapes for broadcasting: {shapes.TensorShape(x)} and {shapes.TensorShape(y)}"
        raise ValueError(f"{words}\n{problem}") from None


@public("broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Any:
    """The shape to which two shapes, given as integer vectors, broadcast."""
    return build("BroadcastArgs", shape_x, shape_y)


# ----------------------------------------------------------------------------------------------------------- constants
def _size_operations(sizes: Sequence[Any]) -> int:
    """How many operations TensorFlow 1.15 makes of sizes with tensors among them, to see whether few are asked for.

    It multiplies them one by one, each number an operation of its own, and compares the product with a number.
    """
    tensor = isinstance(sizes[0], Tensor)
    total = 2
    for size in sizes[1:]:
        if tensor or isinstance(size, Tensor):
            total += 1 if tensor and isinstance(size, Tensor) else 2
            tensor = True
    return total


def _filled(default_name: str, value: Any, shape: Any, dtype: Any, name: str | None) -> Any:
    dtype = dtypes.as_dtype(dtype).base
    fill_value: Any = bool(value) if dtype == dtypes.bool else "" if dtype == dtypes.string and not value else value
    with name_scope(name, default_name, _tensors(shape)) as scope:
        if not isinstance(shape, Tensor):
            try:
                raw = shapes.as_raw(shape)
            except TypeError:
                raw = None
            if raw is not None and None not in raw:
                wide = dtypes.int64 if max(raw, default=0) > dtypes.int32.max else dtypes.int32  # type: ignore[type-var]
                if math.prod(raw) < _SMALL and wide is dtypes.int32:  # type: ignore[arg-type]
                    return constant(fill_value, dtype, raw, name=scope)
                if max(raw, default=0) > dtypes.int64.max:  # type: ignore[type-var]
                    elements.refuse_range(list(raw), wide)
                shape = constant(list(raw), wide, name="shape_as_tensor")
            else:
                if _tensors(shape):
                    count_more(_size_operations(shape))
                shape = convert_to_tensor(shape, dtypes.int32 if not _tensors(shape) else None)
        if shape._shape == ():
            shape = build("Reshape", shape, [-1])
        return build("Fill", shape, constant(fill_value, dtype), name=scope)


@public("zeros")
def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Any:
    """A tensor of `shape` (a list, a TensorShape or an integer vector) that is 0 (False, empty string) everywhere.

    Example:
        >>> import anabranch as tf
        >>> tf.zeros([2, 3], tf.int32).shape.as_list()
        [2, 3]
    """
    return _filled("zeros", 0, shape, dtype, name)


@public("ones")
def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Any:
    """A tensor of `shape` (a list, a TensorShape or an integer vector) that is 1 (True) everywhere."""
    return _filled("ones", 1, shape, dtype, name)


@public("fill")
def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of shape `dims` that holds the scalar `value` everywhere; its dtype is that of `value`."""
    return build("Fill", dims, value, name=name)


_RANGE_ORDER = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


@public("range")
def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """The numbers `start`, `start + delta`, ... before `limit`; `range(n)` counts from 0 to n - 1.

    The dtype is `dtype`, or the widest of those of the arguments.

    Example:
        >>> import anabranch as tf
        >>> tf.range(3, 18, 3).shape.as_list()
        [5]
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", _tensors(start, limit, delta)) as scope:
        parts = [
            convert_to_tensor(value, dtype, name=part)
            for value, part in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        if dtype is None:
            kinds = [part.dtype.base for part in parts]
            if all(kind in _RANGE_ORDER for kind in kinds):
                widest = max(kinds, key=_RANGE_ORDER.index)
                parts = [part if part.dtype.base == widest else build("Cast", part, DstT=widest) for part in parts]
        return build("Range", *parts, name=scope)


range_.__name__ = range_.__qualname__ = "range"


@public("linspace", "lin_space")
def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Any:
    """`num` floats from `start` to `stop`, both included, at equal distances."""
    return build("LinSpace", start, stop, num, name=name)


# -------------------------------------------------------------------------------------------------------------- joins
def _axis_refused(axis: int, rank: int) -> ValueError:
    return ValueError(
        f"axis = {axis} not in [{-rank}, {rank})\n"
        + errors.message(f"axis {axis}", f"an axis in [{-rank}, {rank})", "choose a dimension of the tensor")
    )


@public("stack")
def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Tensors of one shape as one tensor with a new dimension at `axis`.

    Raises:
        ValueError: the shapes differ, or there is no such axis.

    Example:
        >>> import anabranch as tf
        >>> tf.stack([tf.zeros([3]), tf.ones([3])], axis=1).shape.as_list()
        [3, 2]
    """
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass  # not one constant; Pack below says what does not fit
    values = list(values) if isinstance(values, (list, tuple)) else values
    if not isinstance(values, Tensor) and len(values):
        first = values[0] if isinstance(values[0], Tensor) else convert_to_tensor(values[0])
        raw = first._shape
        if raw is not None and not -len(raw) - 1 <= dimensions.as_integer(axis, "axis") <= len(raw):
            raise _axis_refused(axis, len(raw) + 1)
    elif isinstance(values, Tensor):
        values = unstack(values)
    return build("Pack", values, axis=axis, name=name)


@public("unstack")
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Any]:
    """The tensors that lie along `axis` of `value`, as a list; the dimension goes away.

    Args:
        value: tensor of rank 1 or more.
        num: size of the dimension, needed if it is not known while the graph is built.

    Raises:
        ValueError: `num` is None and the size is not known, or there is no such axis.
    """
    if num is None:
        value = convert_to_tensor(value)
        raw = value._shape
        if raw is not None:
            if not -len(raw) <= axis < len(raw):
                raise _axis_refused(axis, len(raw))
            num = raw[axis]
        if num is None:
            raise ValueError(
                f"Cannot infer num from shape {shapes.TensorShape(raw)}\n"
                + errors.message(
                    f"a tensor of shape {shapes.show(raw)}", "a known size of the dimension", "pass num=, or set_shape"
                )
            )
    parts = build("Unpack", value, num=num, axis=axis, name=name)
    return parts if isinstance(parts, list) else []


@public("parallel_stack")
def parallel_stack(values: Any, name: str = "parallel_stack") -> Any:
    """`stack` along dimension 0 of tensors whose shapes are known; no gradient flows through it."""
    with name_scope(name, "parallel_stack", _tensors(values)):
        first = convert_to_tensor(values[0])
        raw = (None,) if first._shape is None else (len(values), *first._shape)
        return build("ParallelConcat", [build("ExpandDims", value, 0) for value in values], shape=raw)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer, dimensions.Dimension)) and not isinstance(value, bool)


@public("concat")
def concat(values: Any = None, axis: Any = None, name: str = "concat", concat_dim: Any = None) -> Any:
    """Tensors joined along the dimension `axis`.

    `concat_dim` is the old name of `axis`; the old order `concat(axis, values)` is understood.

    Raises:
        ValueError: ranks or other dimensions differ.

    Example:
        >>> import anabranch as tf
        >>> tf.concat([tf.zeros([2, 3]), tf.zeros([2, 5])], 1).shape.as_list()
        [2, 8]
    """
    axis = either(axis, concat_dim, "axis", "concat_dim", "concat")
    if _is_number(values) and isinstance(axis, (list, tuple, Tensor)):
        values, axis = axis, values
    if axis is None or values is None:
        raise TypeError(
            "concat() missing 1 required positional argument\n"
            + errors.message(
                f"concat without {'axis' if axis is None else 'values'}",
                "a list of tensors and an axis",
                "tf.concat([a, b], axis=0)",
            )
        )
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with name_scope(name, "concat", _tensors(values)):
            convert_to_tensor(axis, dtypes.int32, name="concat_dim")
            return build("Identity", values[0], name=name)
    return build("ConcatV2", list(values), axis, name=name)


@public("concat_v2")
def concat_v2(values: Any, axis: Any, name: str = "concat_v2") -> Any:
    """The name of `concat` in TensorFlow 0.12."""
    return concat(values, axis, name)


@public("split")
def split(
    value: Any,
    num_or_size_splits: Any = None,
    axis: Any = 0,
    num: int | None = None,
    name: str = "split",
    split_dim: Any = None,
    num_split: Any = None,
) -> list[Any]:
    """`value` cut along `axis` into parts, as a list.

    Args:
        value: tensor to cut.
        num_or_size_splits: a Python int, the number of equal parts; or the sizes of the parts, a list or an integer
            vector, of which one may be -1: what is left.
        axis: dimension to cut.
        num: number of parts, needed if the length of the vector of sizes is not known.
        name: name of the op.
        split_dim, num_split: old names of `axis` and `num_or_size_splits`; the old order `split(axis, num, value)` is
            understood.

    Raises:
        ValueError: the parts do not fit, or their number is not known.

    Example:
        >>> import anabranch as tf
        >>> [part.shape.as_list() for part in tf.split(tf.zeros([6, 2]), [1, 2, 3])]
        [[1, 2], [2, 2], [3, 2]]
    """
    if _is_number(value) and isinstance(axis, Tensor) and axis._shape != ():
        value, axis = axis, value
    num_or_size_splits = either(num_or_size_splits, num_split, "num_or_size_splits", "num_split", "split")
    if split_dim is not None:
        axis = split_dim
    if num_or_size_splits is None:
        raise TypeError(
            errors.message("split without num_or_size_splits", "the number or the sizes", "tf.split(x, 2, axis=0)")
        )
    if _is_number(num_or_size_splits):
        count_more(1)  # the number, unused
        return build("Split", axis, value, num_split=int(num_or_size_splits), name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    raw = sizes._shape
    if raw == ():
        raise ValueError(
            "Rank-0 tensors are not supported as the num_or_size_splits argument to split.\n"
            + errors.message(f"{num_or_size_splits!r}", "a Python int or a vector of sizes", "split(x, 2)")
        )
    if num is None:
        num = None if raw is None else raw[0]
        if num is None:
            raise ValueError(
                f"Cannot infer num from shape {num_or_size_splits}\n"
                + errors.message("sizes of unknown length", "a known number of parts", "pass num=")
            )
    return build("SplitV", value, sizes, axis, num_split=num, name=name)


@public("repeat")
def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Any:
    """Each element of `input` along `axis` repeated `repeats` times (a number, or one per element).

    With `axis=None` the input is flattened first.

    Example:
        >>> import anabranch as tf
        >>> tf.repeat([1, 2], repeats=3).shape.as_list()
        [6]
    """
    with name_scope(name, "Repeat", _tensors(input, repeats)):
        data = convert_to_tensor(input, name="input")
        if axis is None:
            data, axis = build("Reshape", data, [-1]), 0
        raw = data._shape
        if raw is not None:
            if not raw:
                data, raw = build("Reshape", data, [1]), (1,)
            if not -len(raw) <= axis < len(raw):
                raise _axis_refused(axis, len(raw))
            axis %= len(raw)
        times = convert_to_tensor(repeats, name="repeats")
        if times.dtype.base not in (dtypes.int32, dtypes.int64):
            times = build("Cast", times, DstT=dtypes.int32)
        if raw is None and times._shape in ((), (1,)):
            count = times if times._shape == () else build("Reshape", times, [])
            size = build("Shape", data, out_type=times.dtype.base)[axis]
            zero, one = (np.full((), number, times.dtype.base.np) for number in (0, 1))
            rows = build("FloorDiv", build("Range", zero, build("Mul", size, count), one), build("Maximum", count, one))
            return dense_rows(data, rows, axis)
        if raw is not None and times._shape in ((), (1,)):
            count = times if times._shape == () else build("Reshape", times, [])
            wide = build("ExpandDims", data, axis + 1)
            ones = [1] * (len(raw) + 1)
            multiples: list[Any] = [*ones[: axis + 1], count, *ones[axis + 2 :]]
            wide = build("Tile", wide, convert_to_tensor(multiples, times.dtype.base))
            dims: Sequence[Any] = raw
            if None in raw:
                whole = build("Shape", data, out_type=times.dtype.base)
                dims = build("Unpack", whole, num=len(raw))
            joined = build("Mul", convert_to_tensor(dims[axis], times.dtype.base), count)
            target = convert_to_tensor([*dims[:axis], joined, *dims[axis + 1 :]], times.dtype.base)
            return build("Reshape", wide, target)
        # Row i comes as often as its number says: a mask of the longest repetition picks the copies that stay.
        longest = build("Maximum", build("Max", times, [0]), np.zeros((), times.dtype.base.np))
        steps = build("Range", np.zeros((), times.dtype.base.np), longest, np.ones((), times.dtype.base.np))
        mask = build("Less", build("ExpandDims", steps, 0), build("ExpandDims", times, 1))
        rows = build("Slice", build("Where", mask), [0, 0], [-1, 1])
        return dense_rows(data, build("Squeeze", rows, squeeze_dims=[1]), axis)
