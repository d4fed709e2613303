"""``python.ops.distributions.util``: checks and shapes that programs with distributions of their own use.

Values and words of the checks are TensorFlow's; what is public (``fill_triangular`` and others) stands in
:mod:`anabranch.contrib.distributions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.distributions.base import new_seed

gen_new_seed = new_seed
_INTEGER_OF_WIDTH = {"float16": tf.int16, "float32": tf.int32, "float64": tf.int64}
_UNSIGNED = frozenset([tf.bool, tf.uint8, tf.uint16])
_SIGNED = frozenset([tf.float16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64])


# -------------------------------------------------------------------------------------------------------------- dtypes
def _is_known_unsigned_by_dtype(dt: Any) -> bool:
    """Whether a dtype is known to hold no negative numbers."""
    return dt.base_dtype in _UNSIGNED


def _is_known_signed_by_dtype(dt: Any) -> bool:
    """Whether a dtype is known to hold negative numbers."""
    return dt.base_dtype in _SIGNED


def _is_known_dtype(dt: Any) -> bool:
    """Whether it is known which integers a dtype holds."""
    return _is_known_unsigned_by_dtype(dt) or _is_known_signed_by_dtype(dt)


def _known(dt: Any) -> Any:
    if not _is_known_dtype(dt):
        raise TypeError(
            f"Unrecognized dtype: {dt.name}\n"
            + errors.message(f"dtype {dt.name}", "bool, an integer or a floating dtype of NumPy", "tf.float32")
        )
    return dt.base_dtype


def _largest_integer_by_dtype(dt: Any) -> int:
    """The largest integer up to which a dtype holds all integers."""
    base = _known(dt)
    if base.is_floating:
        return int(2 ** (np.finfo(base.as_numpy_dtype).nmant + 1))
    return 1 if base == tf.bool else int(np.iinfo(base.as_numpy_dtype).max)


def _smallest_integer_by_dtype(dt: Any) -> int:
    """The negative of the largest integer, or 0 for dtypes without a sign."""
    return 0 if _known(dt) in _UNSIGNED else -_largest_integer_by_dtype(dt)


def _is_integer_like_by_dtype(dt: Any) -> bool:
    """Whether a dtype is of integers or bool."""
    base = _known(dt)
    return bool(base.is_integer or base == tf.bool)


# -------------------------------------------------------------------------------------------------------------- checks
def assert_close(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str = "assert_close",
) -> Any:
    """An operation that fails unless two tensors agree within the precision of their dtype."""
    message = message or ""
    x, y = tf.convert_to_tensor(x, name="x"), tf.convert_to_tensor(y, name="y")
    if data is None:
        data = [message, "Condition x ~= y did not hold element-wise: x = ", x, "y = ", y]
    if x.dtype.is_integer:
        return tf.assert_equal(x, y, data=data, summarize=summarize, message=message, name=name)
    with tf.name_scope(name, "assert_close", [x, y, data]):
        tolerance = np.finfo(x.dtype.as_numpy_dtype).eps
        return tf.Assert(tf.reduce_all(tf.abs(x - y) <= tolerance), data, summarize=summarize)


def assert_integer_form(
    x: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    int_dtype: Any = None,
    name: str = "assert_integer_form",
) -> Any:
    """An operation that fails unless all elements are integers, as ``int_dtype`` holds them."""
    with tf.name_scope(name, values=[x, data]):
        x = tf.convert_to_tensor(x, name="x")
        if x.dtype.is_integer:
            return tf.no_op()
        if int_dtype is None:
            int_dtype = _INTEGER_OF_WIDTH.get(x.dtype.base_dtype.name)
            if int_dtype is None:
                raise TypeError(
                    f"Unrecognized type {x.dtype.name}\n"
                    + errors.message(f"{x.dtype.name}", "float16, float32 or float64", "tf.cast(x, tf.float32)")
                )
        message = message or f"{x} has non-integer components"
        rounded = tf.cast(tf.cast(x, int_dtype), x.dtype)
        return tf.assert_equal(x, rounded, data=data, summarize=summarize, message=message, name=name)


def assert_symmetric(matrix: Any) -> Any:
    """Matrices, after a check that they equal their transposes."""
    with tf.control_dependencies([tf.assert_equal(matrix, tf.matrix_transpose(matrix))]):
        return tf.identity(matrix)


def embed_check_nonnegative_integer_form(x: Any, name: str = "embed_check_nonnegative_integer_form") -> Any:
    """A tensor, after a check that no element is negative and all are integers."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        checks = [tf.assert_non_negative(x, message=f"'{x}' must be non-negative.")]
        if not x.dtype.is_integer:
            checks.append(assert_integer_form(x, message=f"'{x}' cannot contain fractional components."))
        return _after(checks, x)


def _after(checks: list[Any], x: Any) -> Any:
    with tf.control_dependencies(checks):
        return tf.identity(x)


def embed_check_categorical_event_shape(
    categorical_param: Any, name: str = "embed_check_categorical_event_shape"
) -> Any:
    """Parameters of classes along the last axis, after a check that there are two at least and not too many to count.

    Raises:
        TypeError: the dtype is not a floating one of NumPy.
        ValueError: it is known that there are too few or too many classes.
    """
    with tf.name_scope(name, values=[categorical_param]):
        x = tf.convert_to_tensor(categorical_param, name="categorical_param")
        dtype = x.dtype.base_dtype
        if not dtype.is_floating or not _is_known_dtype(dtype):
            raise TypeError(
                f"Unable to validate size of unrecognized dtype ({dtype.name}).\n"
                + errors.message(f"parameters of dtype {dtype.name}", "float16, float32 or float64", "tf.to_float(x)")
            )
        most = _largest_integer_by_dtype(dtype)
        flat = "A categorical-distribution parameter must have at least 1 dimension."
        few = "A categorical-distribution parameter must have at least 2 events."
        many = "Number of classes exceeds `dtype` precision, i.e., "
        if x.shape.ndims == 0:
            raise ValueError(f"{flat}\n" + errors.message("a scalar", "one number for each class", "probs=[0.5, 0.5]"))
        size = None if x.shape.ndims is None else x.shape[-1].value
        if size is None:
            events = tf.shape(x, name="x_shape")[-1]
            checks = [
                tf.assert_rank_at_least(x, 1, message=flat),
                tf.assert_greater_equal(events, 2, message=few),
                tf.assert_less_equal(
                    events, min(most, 2**31 - 1), message=f"{many}{dtype.name} dtype cannot exceed {most} shape."
                ),
            ]
            return _after(checks, x)
        if size < 2:
            raise ValueError(f"{few}\n" + errors.message(f"{size} classes", "at least two", "probs=[0.5, 0.5]"))
        if size > most:
            raise ValueError(
                f"{many}{dtype.name} implies shape ({size}) cannot exceed {most}.\n"
                + errors.message(f"{size} classes", f"at most {most} for {dtype.name}", "tf.cast(x, tf.float64)")
            )
        return x


def embed_check_integer_casting_closed(
    x: Any, target_dtype: Any, assert_nonnegative: bool = True, name: str = "embed_check_casting_closed"
) -> Any:
    """A tensor of integers, after a check that a cast to another dtype and back does not change them.

    Raises:
        TypeError: a dtype is neither of numbers nor bool, or both are floating.
    """
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        own = x.dtype.base_dtype
        for what, dtype in (("x", own), ("target_dtype", target_dtype)):
            if not _is_integer_like_by_dtype(dtype) and not dtype.is_floating:
                raise TypeError(
                    f"{what} ({dtype.name}) must be floating- or integer-type.\n"
                    + errors.message(
                        f"{what} of dtype {dtype.name}", "bool, an integer or a floating dtype", "tf.int32"
                    )
                )
        if own.is_floating and target_dtype.is_floating:
            raise TypeError(
                f"At least one of {x}.dtype ({own.name}) and target_dtype ({target_dtype.name}) must be integer-type.\n"
                + errors.message(
                    f"{own.name} and {target_dtype.name}", "one dtype of integers", "target_dtype=tf.int32"
                )
            )
        checks = []
        if assert_nonnegative:
            checks.append(tf.assert_non_negative(x, message="Elements must be non-negative."))
        most, least = _largest_integer_by_dtype(target_dtype), _smallest_integer_by_dtype(target_dtype)
        if own.is_floating:
            words = f"Elements must be {target_dtype.name}-equivalent."
            checks.append(assert_integer_form(x, int_dtype=target_dtype, message=words))
        else:
            if _largest_integer_by_dtype(own) > most:
                checks.append(tf.assert_less_equal(x, most, message=f"Elements cannot exceed {most}."))
            if not assert_nonnegative and _smallest_integer_by_dtype(own) < least:
                checks.append(tf.assert_greater_equal(x, least, message=f"Elements cannot be smaller than {least}."))
        return _after(checks, x) if checks else x


def get_logits_and_probs(
    logits: Any = None,
    probs: Any = None,
    multidimensional: bool = False,
    validate_args: bool = False,
    name: str = "get_logits_and_probs",
) -> tuple[Any, Any]:
    """Log-odds and probabilities, of which one is given.

    Args:
        logits: log-odds; of classes along the last axis if ``multidimensional``.
        probs: probabilities, likewise.
        multidimensional: whether the last axis is of classes.
        validate_args: whether to check that probabilities are such.
        name: name scope.

    Raises:
        ValueError: both are given, or neither.
        TypeError: the dtype is not floating.
    """
    with tf.name_scope(name, values=[probs, logits]):
        if (probs is None) == (logits is None):
            raise ValueError(
                "Must pass probs or logits, but not both.\n"
                + errors.message(
                    "neither of them" if probs is None else "both", "either probs or logits", "probs=[0.5, 0.5]"
                )
            )
        kind = "logits" if probs is None else "probs"
        given = tf.convert_to_tensor(logits if probs is None else probs, name=kind)
        if not given.dtype.is_floating:
            raise TypeError(
                f"{kind} must having floating type.\n"
                + errors.message(f"{kind} of dtype {given.dtype.name}", "a floating dtype", f"tf.to_float({kind})")
            )
        if probs is None:
            if multidimensional:
                given = embed_check_categorical_event_shape(given) if validate_args else given
                return given, tf.nn.softmax(given, name="probs")
            return given, tf.sigmoid(given, name="probs")
        if validate_args:
            with tf.name_scope("validate_probs"):
                one = tf.constant(1.0, given.dtype)
                checks = [tf.assert_non_negative(given)]
                if multidimensional:
                    given = embed_check_categorical_event_shape(given)
                    total = tf.reduce_sum(given, -1)
                    checks.append(assert_close(total, one, message="probs does not sum to 1."))
                else:
                    words = "probs has components greater than 1."
                    checks.append(tf.assert_less_equal(given, one, message=words))
                given = _after(checks, given)
        with tf.name_scope("logits"):
            logarithm = tf.log(given)
            return (logarithm if multidimensional else logarithm - tf.log1p(-given)), given


def log_combinations(n: Any, counts: Any, name: str = "log_combinations") -> Any:
    """The logarithm of ``n! / prod(counts!)``, the product along the last axis of ``counts``, which add up to ``n``."""
    with tf.name_scope(name, values=[n, counts]):
        n, counts = tf.convert_to_tensor(n, name="n"), tf.convert_to_tensor(counts, name="counts")
        return tf.lgamma(n + 1) - tf.reduce_sum(tf.lgamma(counts + 1), axis=[-1])


# -------------------------------------------------------------------------------------------------------------- shapes
def same_dynamic_shape(a: Any, b: Any) -> Any:
    """A scalar bool tensor: whether two tensors have one shape when a step runs."""
    a, b = tf.convert_to_tensor(a, name="a"), tf.convert_to_tensor(b, name="b")

    def sizes_equal() -> Any:
        # Joined both ways round, so that unequal ranks, which the other branch excludes, do not fail inference.
        first, second = tf.shape(a), tf.shape(b)
        return tf.reduce_all(tf.equal(tf.concat([first, second], 0), tf.concat([second, first], 0)))

    return tf.cond(tf.equal(tf.rank(a), tf.rank(b)), sizes_equal, lambda: tf.constant(False))


def prefer_static_value(x: Any) -> Any:
    """The value of a tensor if it is known, the tensor otherwise."""
    value = tf.contrib.util.constant_value(x)
    return x if value is None else value


def prefer_static_rank(x: Any) -> Any:
    """The rank of a tensor: an array if it is known, a tensor otherwise."""
    return prefer_static_value(tf.rank(x))


def prefer_static_shape(x: Any) -> Any:
    """The shape of a tensor: an array if it is known, a tensor otherwise."""
    return prefer_static_value(tf.shape(x))


def prefer_static_broadcast_shape(shape1: Any, shape2: Any, name: str = "prefer_static_broadcast_shape") -> Any:
    """The shape that two shapes broadcast to: a TensorShape if both are known, an int32 tensor otherwise."""
    with tf.name_scope(name, values=[shape1, shape2]):
        tensors, known = [], []
        for shape in (shape1, shape2):
            if isinstance(shape, tf.TensorShape):
                known.append(shape)
                tensors.append(shape)
                continue
            tensor = tf.convert_to_tensor(shape, tf.int32, name="shape")
            value = tf.contrib.util.constant_value(tensor)
            tensors.append(tensor)
            if value is not None:
                known.append(tf.TensorShape(value))
        if len(known) == 2:
            return tf.broadcast_static_shape(*known)
        for at, shape in enumerate(tensors):
            if isinstance(shape, tf.TensorShape):
                if not shape.is_fully_defined():
                    raise ValueError(
                        "Cannot broadcast from partially defined `TensorShape`.\n"
                        + errors.message(f"shape {shape}", "a shape that is fully known", "tf.shape(x)")
                    )
                tensors[at] = tf.convert_to_tensor(shape.as_list(), tf.int32)
        return tf.broadcast_dynamic_shape(*tensors)


def dimension_size(x: Any, axis: int) -> Any:
    """The size of a dimension: an int if it is known, a scalar tensor otherwise."""
    size = x.shape.with_rank_at_least(abs(axis))[axis].value
    return tf.shape(x)[axis] if size is None else size


def rotate_transpose(x: Any, shift: Any, name: str = "rotate_transpose") -> Any:
    """A tensor whose dimensions are turned to the right by ``shift``, to the left if it is negative."""
    with tf.name_scope(name, values=[x, shift]):
        x, shift = tf.convert_to_tensor(x, name="x"), tf.convert_to_tensor(shift, name="shift")
        tf.assert_integer(shift)
        by, rank = tf.contrib.util.constant_value(shift), x.shape.ndims
        if by is not None and rank is not None:
            return x if rank < 2 or by % rank == 0 else tf.transpose(x, np.roll(np.arange(rank), by))
        dynamic = tf.rank(x)
        first = tf.floormod(-shift, dynamic)
        return tf.transpose(x, tf.concat([tf.range(first, dynamic), tf.range(0, first)], 0))


def pick_vector(cond: Any, true_vector: Any, false_vector: Any, name: str = "pick_vector") -> Any:
    """One of two vectors, which may differ in length; a known condition picks while the graph is built.

    Raises:
        TypeError: the condition is not bool, or the vectors differ in dtype.
    """
    with tf.name_scope(name, values=(cond, true_vector, false_vector)):
        cond = tf.convert_to_tensor(cond, name="cond")
        if cond.dtype != tf.bool:
            raise TypeError(
                f"{cond}.dtype={cond.dtype} which is not {tf.bool}\n"
                + errors.message(f"a condition of dtype {cond.dtype.name}", "a scalar bool", "tf.greater(x, 0)")
            )
        known = tf.contrib.util.constant_value(cond)
        if known is not None:
            return true_vector if known else false_vector
        true_vector = tf.convert_to_tensor(true_vector, name="true_vector")
        false_vector = tf.convert_to_tensor(false_vector, name="false_vector")
        if true_vector.dtype != false_vector.dtype:
            raise TypeError(
                f"{true_vector}.dtype={true_vector.dtype} does not match {false_vector}.dtype={false_vector.dtype}\n"
                + errors.message(
                    f"{true_vector.dtype.name} and {false_vector.dtype.name}", "one dtype", "tf.cast(x, y.dtype)"
                )
            )
        length = tf.shape(true_vector)[0]
        both = tf.concat([true_vector, false_vector], 0)
        return tf.slice(both, [tf.where(cond, 0, length)], [tf.where(cond, length, -1)])


def pad(
    x: Any, axis: Any, front: bool = False, back: bool = False, value: Any = 0, count: Any = 1, name: Any = None
) -> Any:
    """A tensor with ``count`` elements of ``value`` before or behind (or both) those of one dimension.

    Raises:
        TypeError: ``count`` is not an integer.
        ValueError: neither ``front`` nor ``back`` is true.
    """
    with tf.name_scope(name, "pad", [x, value, count]):
        x = tf.convert_to_tensor(x, name="x")
        value = tf.convert_to_tensor(value, dtype=x.dtype, name="value")
        count = tf.convert_to_tensor(count, name="count")
        if not count.dtype.is_integer:
            raise TypeError(
                f"`count.dtype` (`{count.dtype.name}`) must be `int`-like.\n"
                + errors.message(f"count of dtype {count.dtype.name}", "an integer", "count=1")
            )
        if not front and not back:
            raise ValueError(
                "At least one of `front`, `back` must be `True`.\n"
                + errors.message("front=False, back=False", "a side to pad", "back=True")
            )
        rank = x.shape.ndims
        dims: Any = tf.rank(x, name="ndims") if rank is None else rank
        axis = tf.convert_to_tensor(axis, name="axis")
        known_axis, known_count = tf.contrib.util.constant_value(axis), tf.contrib.util.constant_value(count)
        shape = None
        if known_axis is None:
            axis = tf.where(axis < 0, dims + axis, axis)
        else:
            axis = int(known_axis) if known_axis >= 0 else dims + int(known_axis)
            if rank is not None:
                grown = None if known_count is None else x.shape[axis] + int(known_count) * (front + back)
                shape = x.shape[:axis].concatenate([grown]).concatenate(x.shape[axis + 1 :])
        sides = tf.stack([axis if front else -1, axis if back else -1])
        paddings = tf.one_hot(sides, depth=dims, axis=0, on_value=count, dtype=tf.int32)
        padded = tf.pad(x, paddings, constant_values=value)
        if shape is not None:
            padded.set_shape(shape)
        return padded


def process_quadrature_grid_and_probs(
    quadrature_grid_and_probs: Any, dtype: Any, validate_args: bool, name: str | None = None
) -> tuple[Any, Any]:
    """Points and weights of a quadrature, the weights summing to 1: those given, or eight of Gauss and Hermite.

    Raises:
        ValueError: it is known that there are not as many points as weights.
    """
    with tf.name_scope(name, "process_quadrature_grid_and_probs", [quadrature_grid_and_probs]):
        dtype = tf.as_dtype(dtype)
        if quadrature_grid_and_probs is None:
            grid, probs = np.polynomial.hermite.hermgauss(deg=8)
            probs = probs / np.sum(np.abs(probs))
            return tf.constant(grid, dtype, name="grid"), tf.constant(probs, dtype, name="probs")
        grid, probs = quadrature_grid_and_probs
        grid = tf.convert_to_tensor(grid, dtype, name="grid")
        probs = tf.convert_to_tensor(probs, dtype, name="unnormalized_probs")
        probs /= tf.norm(probs, ord=1, axis=-1, keepdims=True, name="probs")
        points, weights = (one.shape.with_rank_at_least(1)[-1].value for one in (grid, probs))
        words = "`quadrature_grid_and_probs` must be a `tuple` of same-length zero-th-dimension `Tensor`s"
        if points is not None and weights is not None:
            if points != weights:
                raise ValueError(
                    f"{words} (saw lengths {weights}, {points})\n"
                    + errors.message(f"{points} points and {weights} weights", "one weight for each point", "weights")
                )
        elif validate_args:
            equal = tf.assert_equal(dimension_size(probs, -1), dimension_size(grid, -1), message=words)
            grid, probs = _after([equal], grid), _after([equal], probs)
        return grid, probs


class AppendDocstring:
    """A decorator that appends notes and a list of arguments to the docstring of a function.

    Args:
        additional_note: text that is appended.
        kwargs_dict: descriptions of keyword arguments by name.
    """

    def __init__(self, additional_note: str = "", kwargs_dict: dict[str, str] | None = None) -> None:
        self._note = additional_note
        lines = []
        for key, value in sorted((kwargs_dict or {}).items()):
            if any(character.isspace() for character in key):
                raise ValueError(
                    f'Parameter name "{key}" contains whitespace.\n'
                    + errors.message(f"the name {key!r}", "a name without spaces", key.replace(" ", "_"))
                )
            value = value.lstrip()
            if "\n" in value:
                raise ValueError(
                    f'Parameter description for "{key}" contains newlines.\n'
                    + errors.message(f"several lines for {key!r}", "one line", '" ".join(text.split())')
                )
            lines.append(f"*  `{key}`: {value}")
        if lines:
            self._note += "".join(["\n\n##### `kwargs`:\n\n", "\n".join(lines)])

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function under a docstring that goes on with the notes."""

        @functools.wraps(fn)
        def documented(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        documented.__doc__ = f"{fn.__doc__}\n{self._note}" if fn.__doc__ else self._note
        return documented
