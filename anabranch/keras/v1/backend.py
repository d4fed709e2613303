"""``tf.keras.backend`` of version 1: functions of tensors by Keras' names, beside its session and learning phase.

Those that are ops by another name are in one table; :mod:`~anabranch.keras.v1.backend_nn` has those of networks,
:mod:`~anabranch.keras.v1.state` those of sessions, phases, names and values.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.state import floatx

name_scope = tf.name_scope

# Keras' name: the op.
_SAME: dict[str, Callable[..., Any]] = {
    "abs": tf.abs,
    "cos": tf.cos,
    "equal": tf.equal,
    "exp": tf.exp,
    "greater": tf.greater,
    "greater_equal": tf.greater_equal,
    "less": tf.less,
    "less_equal": tf.less_equal,
    "log": tf.log,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "not_equal": tf.not_equal,
    "pow": tf.pow,
    "round": tf.round,
    "shape": tf.shape,
    "sign": tf.sign,
    "sin": tf.sin,
    "square": tf.square,
    "stop_gradient": tf.stop_gradient,
    "tanh": tf.nn.tanh,
    "sigmoid": tf.nn.sigmoid,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "transpose": tf.transpose,
    "update": tf.assign,
    "update_add": tf.assign_add,
    "update_sub": tf.assign_sub,
}


def dims(shape: Any) -> tuple[Any, ...]:
    """A shape as a tuple of ints and None."""
    return tuple(tf.TensorShape(shape).as_list())


# --------------------------------------------------------------------------------------------- variables, placeholders


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """A variable that starts with this value; of a sparse matrix of SciPy's, a sparse tensor."""
    if hasattr(value, "tocoo"):
        entries = value.tocoo()
        places = np.stack([entries.row, entries.col], axis=1).astype(np.int64)
        return tf.SparseTensor(places, entries.data, entries.shape)
    made = tf.Variable(
        value if isinstance(value, tf.Tensor) else np.asarray(value),
        dtype=tf.as_dtype(dtype or floatx()),
        name=name,
        constraint=constraint,
        use_resource=True,
        collections=None,
    )
    made._keras_shape = dims(made.shape)
    made._uses_learning_phase = False
    state.track_variable(made)
    return made


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A constant."""
    return tf.constant(value, dtype=dtype or floatx(), shape=shape, name=name or "Const")


def placeholder(
    shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False, name: str | None = None
) -> Any:
    """A placeholder; ``ndim`` gives the rank where no shape is given."""
    if shape is None and ndim:
        shape = (None,) * ndim
    with state.graph().as_default():
        make = tf.sparse_placeholder if sparse else tf.placeholder
        return make(tf.as_dtype(dtype or floatx()), shape=shape, name=name)


def is_placeholder(x: Any) -> bool:
    """Whether a tensor is a placeholder."""
    return hasattr(x, "op") and x.op.type in {"Placeholder", "PlaceholderV2"}


def is_keras_tensor(x: Any) -> bool:
    """Whether a tensor was made by ``Input`` or by a layer."""
    if not isinstance(x, (tf.Tensor, tf.Variable, tf.SparseTensor)):
        raise ValueError(
            f"Unexpectedly found an instance of type `{type(x)}`. Expected a symbolic tensor instance.\n"
            "Given: something that is not a tensor\nExpected: a tensor\nInstead: tf.keras.Input(shape)"
        )
    return hasattr(x, "_keras_history")


def _initial(make: Callable[..., Any], shape: Any, dtype: Any, name: str | None) -> Any:
    return variable(make(shape, tf.as_dtype(dtype or floatx())), dtype=dtype, name=name)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of zeros."""
    return _initial(tf.zeros, shape, dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of ones."""
    return _initial(tf.ones, shape, dtype, name)


def eye(size: int, dtype: Any = None, name: str | None = None) -> Any:
    """A variable that holds the identity matrix."""
    return variable(np.eye(size), dtype, name)


def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros of the shape of ``x``."""
    return tf.zeros_like(x, dtype=dtype, name=name)


def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Ones of the shape of ``x``."""
    return tf.ones_like(x, dtype=dtype, name=name)


def identity(x: Any, name: str | None = None) -> Any:
    """A tensor with the value of ``x``."""
    return tf.identity(x, name=name)


def random_uniform_variable(
    shape: Any, low: float, high: float, dtype: Any = None, name: str | None = None, seed: int | None = None
) -> Any:
    """A variable of uniformly distributed numbers."""
    seed = np.random.randint(10**8) if seed is None else seed
    return variable(
        tf.random_uniform_initializer(low, high, seed=seed)(shape, tf.as_dtype(dtype or floatx())), dtype, name
    )


def random_normal_variable(
    shape: Any, mean: float, scale: float, dtype: Any = None, name: str | None = None, seed: int | None = None
) -> Any:
    """A variable of normally distributed numbers."""
    seed = np.random.randint(10**8) if seed is None else seed
    return variable(
        tf.random_normal_initializer(mean, scale, seed=seed)(shape, tf.as_dtype(dtype or floatx())), dtype, name
    )


def count_params(x: Any) -> int:
    """Number of elements of a variable or of a tensor of known shape."""
    return int(np.prod(tf.TensorShape(x.shape).as_list()))


# --------------------------------------------------------------------------------------------------- shapes and dtypes


def int_shape(x: Any) -> Any:
    """Static shape as a tuple of ints and None; None if the rank is not known."""
    shape = tf.TensorShape(x.shape)
    return None if shape.ndims is None else tuple(shape.as_list())


def ndim(x: Any) -> Any:
    """Rank of a tensor."""
    return tf.TensorShape(x.shape).ndims


def dtype(x: Any) -> str:
    """Name of the dtype of a tensor."""
    return str(x.dtype.base_dtype.name)


def cast(x: Any, dtype: Any) -> Any:
    """Convert elements to another dtype."""
    return tf.cast(x, dtype)


def cast_to_floatx(x: Any) -> Any:
    """Convert an array or a tensor to the dtype of weights."""
    return tf.cast(x, floatx()) if isinstance(x, (tf.Tensor, tf.Variable, tf.SparseTensor)) else np.asarray(x, floatx())


def reshape(x: Any, shape: Any) -> Any:
    """Give a tensor another shape."""
    return tf.reshape(x, shape)


def permute_dimensions(x: Any, pattern: Any) -> Any:
    """Put axes in another order."""
    return tf.transpose(x, perm=pattern)


def expand_dims(x: Any, axis: int = -1) -> Any:
    """Insert an axis of size 1."""
    return tf.expand_dims(x, axis)


def squeeze(x: Any, axis: Any) -> Any:
    """Remove an axis of size 1."""
    return tf.squeeze(x, [axis] if isinstance(axis, int) else axis)


def flatten(x: Any) -> Any:
    """All elements along one axis."""
    return tf.reshape(x, [-1])


def batch_flatten(x: Any) -> Any:
    """All but the first axis joined to one."""
    return tf.reshape(x, tf.stack([-1, tf.reduce_prod(tf.shape(x)[1:])]))


def concatenate(tensors: Any, axis: int = -1) -> Any:
    """Join tensors along an axis."""
    if axis < 0:
        rank = ndim(tensors[0])
        axis = axis % rank if rank else 0
    return tf.concat([state.to_dense(x) for x in tensors], axis)


def stack(x: Any, axis: int = 0) -> Any:
    """Join tensors along a new axis."""
    return tf.stack(x, axis=axis)


def tile(x: Any, n: Any) -> Any:
    """Repeat a tensor along its axes."""
    return tf.tile(x, [n] if isinstance(n, int) else n)


def repeat(x: Any, n: int) -> Any:
    """Repeat rows ``[batch, features]`` to ``[batch, n, features]``."""
    return tf.tile(tf.expand_dims(x, 1), tf.stack([1, n, 1]))


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Repeat each element along an axis, as ``np.repeat`` does."""
    size = tf.TensorShape(x.shape).as_list()[axis]
    if size is not None:
        return tf.concat([part for part in tf.split(x, size, axis) for _ in range(rep)], axis)
    sizes = tf.shape(x)
    axis = axis % ndim(x)
    spread = tf.tile(tf.expand_dims(x, axis + 1), [rep if i == axis + 1 else 1 for i in range(ndim(x) + 1)])
    return tf.reshape(spread, tf.concat([sizes[:axis], [-1], sizes[axis + 1 :]], 0))


def reverse(x: Any, axes: Any) -> Any:
    """Turn axes round."""
    return tf.reverse(x, [axes] if isinstance(axes, int) else axes)


def arange(start: Any, stop: Any = None, step: int = 1, dtype: str = "int32") -> Any:
    """A range of numbers; empty for a negative end."""
    if stop is None and start < 0:
        start = 0
    numbers = tf.range(start, limit=stop, delta=step)
    return numbers if dtype == "int32" else tf.cast(numbers, dtype)


def gather(reference: Any, indices: Any) -> Any:
    """Rows of a tensor by index."""
    return tf.gather(reference, indices)


def one_hot(indices: Any, num_classes: int) -> Any:
    """Indices as vectors with a one."""
    return tf.one_hot(indices, depth=num_classes, axis=-1)


def slice(x: Any, start: Any, size: Any) -> Any:
    """A block of a tensor."""
    return tf.slice(x, start, size)


# ---------------------------------------------------------------------------------------------------------- arithmetic


def _number(x: Any) -> Any:
    return tf.cast(x, floatx()) if x.dtype.base_dtype == tf.bool else x


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Greatest element."""
    return tf.reduce_max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Least element."""
    return tf.reduce_min(x, axis, keepdims)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Sum of elements."""
    return tf.reduce_sum(x, axis, keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Product of elements."""
    return tf.reduce_prod(x, axis, keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Mean of elements."""
    return tf.reduce_mean(_number(x), axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Variance of elements."""
    x = _number(x)
    return tf.reduce_mean(tf.square(x - tf.reduce_mean(x, axis, True)), axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Standard deviation of elements."""
    return tf.sqrt(var(x, axis, keepdims))


def cumsum(x: Any, axis: int = 0) -> Any:
    """Running sums."""
    return tf.cumsum(x, axis)


def cumprod(x: Any, axis: int = 0) -> Any:
    """Running products."""
    return tf.cumprod(x, axis)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether an element is true."""
    return tf.reduce_any(tf.cast(x, tf.bool), axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements are true."""
    return tf.reduce_all(tf.cast(x, tf.bool), axis, keepdims)


def argmax(x: Any, axis: int = -1) -> Any:
    """Index of the greatest element."""
    return tf.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """Index of the least element."""
    return tf.argmin(x, axis)


def sqrt(x: Any) -> Any:
    """Square root; of negative numbers 0."""
    zero = tf.cast(0.0, x.dtype.base_dtype)
    return tf.sqrt(tf.clip_by_value(x, zero, tf.cast(np.inf, x.dtype.base_dtype)))


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Logarithm of the sum of exponentials."""
    return tf.reduce_logsumexp(x, axis, keepdims)


def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """Elements brought into a range."""
    if isinstance(min_value, (int, float)) and isinstance(max_value, (int, float)) and max_value < min_value:
        max_value = min_value
    return tf.clip_by_value(x, min_value, np.inf if max_value is None else max_value)


def dot(x: Any, y: Any) -> Any:
    """Product of tensors: the last axis of the first with the last but one of the second."""
    rank, other = ndim(x), ndim(y)
    if rank is None or (rank <= 2 and other <= 2):
        return tf.sparse_tensor_dense_matmul(x, y) if state.is_sparse(x) else tf.matmul(x, y)
    return tf.tensordot(x, y, [[rank - 1], [other - 2 if other > 1 else 0]])


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Product of tensors row by row of the batch, over one axis of each.

    Args:
        x, y: ``[batch, ...]``.
        axes: an axis of each, or one for both.
    """
    ranks = ndim(x), ndim(y)
    if isinstance(axes, int):
        axes = (axes, axes)
    if axes is None:
        axes = (ranks[0] - 1, ranks[1] - 1 if ranks[1] == 2 else ranks[1] - 2)
    first, second = (axis % rank for axis, rank in zip(axes, ranks, strict=True))
    # The axis that is summed over goes last in x, second in y; what is between is joined.
    kept = [i for i in range(1, ranks[0]) if i != first], [i for i in range(1, ranks[1]) if i != second]
    sizes = [list(int_shape(t)) for t in (x, y)]
    dynamic = [tf.shape(x), tf.shape(y)]
    left = tf.transpose(x, [0, *kept[0], first])
    right = tf.transpose(y, [0, second, *kept[1]])
    if len(kept[0]) != 1:
        left = tf.reshape(left, tf.stack([dynamic[0][0], -1, dynamic[0][first]]))
    if len(kept[1]) != 1:
        right = tf.reshape(right, tf.stack([dynamic[1][0], dynamic[1][second], -1]))
    product = tf.matmul(left, right)
    outer = [dynamic[0][i] for i in kept[0]] + [dynamic[1][i] for i in kept[1]]
    static = [sizes[0][0]] + [sizes[0][i] for i in kept[0]] + [sizes[1][i] for i in kept[1]]
    if not outer:
        outer, static = [1], [*static, 1]
    if len(kept[0]) != 1 or len(kept[1]) != 1:
        product = tf.reshape(product, tf.stack([dynamic[0][0], *outer]))
    product.set_shape(static)
    return product


def gradients(loss: Any, variables: Any) -> Any:
    """Gradients of a loss with respect to variables or tensors."""
    return tf.gradients(loss, variables)


def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """Move a variable towards a value by the share ``1 - momentum``."""
    return tf.assign_sub(x, (x - value) * tf.cast(1 - momentum, x.dtype.base_dtype))


def print_tensor(x: Any, message: str = "") -> Any:
    """A tensor that prints its value when it is computed."""
    return tf.Print(x, [x], message)


def to_dense(tensor: Any) -> Any:
    """A sparse tensor as a dense one; others as they are."""
    return state.to_dense(tensor)


def is_tensor(x: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(x, (tf.Tensor, tf.SparseTensor, tf.Variable))


# -------------------------------------------------------------------------------------------------------------- random
def _seed(seed: int | None) -> int:
    return int(np.random.randint(10**7)) if seed is None else seed


def random_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Normally distributed numbers."""
    return tf.random_normal(shape, mean, stddev, dtype or floatx(), _seed(seed))


def random_uniform(
    shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Uniformly distributed numbers."""
    return tf.random_uniform(shape, minval, maxval, dtype or floatx(), _seed(seed))


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Ones with probability ``p``, else zeros."""
    kind = dtype or floatx()
    drawn = tf.random_uniform(shape, dtype=kind, seed=_seed(seed))
    return tf.where(drawn <= p, tf.ones(shape, kind), tf.zeros(shape, kind))


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Normally distributed numbers within two standard deviations."""
    return tf.truncated_normal(shape, mean, stddev, dtype or floatx(), _seed(seed))


# -------------------------------------------------------------------------------------------------------- control flow
def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two tensors or functions: by a scalar as a branch, by a tensor element by element."""
    if condition.dtype != tf.bool:
        condition = tf.cast(condition, tf.bool)
    rank = ndim(condition)
    if not rank:
        then = then_expression if callable(then_expression) else lambda: then_expression
        other = else_expression if callable(else_expression) else lambda: else_expression
        return tf.cond(condition, then, other)
    values = [item() if callable(item) else item for item in (then_expression, else_expression)]
    wanted = ndim(values[0])
    if wanted > rank:
        condition = tf.reshape(condition, tf.concat([tf.shape(condition), [1] * (wanted - rank)], 0))
        condition = tf.logical_and(condition, tf.ones_like(values[0], dtype=tf.bool))
    return tf.where(condition, *values)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """``x`` where layers train, else ``alt``; each a tensor or a function."""
    training = state.learning_phase() if training is None else training
    if isinstance(training, (bool, int)):
        chosen = x if training else alt
        return chosen() if callable(chosen) else chosen
    return switch(training, x, alt)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """``x`` where layers do not train, else ``alt``."""
    return in_train_phase(alt, x, training)


def map_fn(fn: Any, elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """A function of each element."""
    return tf.map_fn(fn, elems, name=name, dtype=dtype)


def foldl(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Elements joined from the left."""
    return tf.foldl(fn, elems, initializer=initializer, name=name)


def foldr(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Elements joined from the right."""
    return tf.foldr(fn, elems, initializer=initializer, name=name)


# ----------------------------------------------------------------------------------------------------------- functions
class Function:
    """Tensors as a Python function of arrays: one step of the session.

    Args:
        inputs: tensors that are fed.
        outputs: tensors that are returned as arrays.
        updates: operations, or pairs of a variable and its new value, that run with them.
        name: name of the scope of the updates.
        session_kwargs: ``feed_dict`` and ``fetches`` are added to those of each call.
    """

    def __init__(
        self, inputs: Any, outputs: Any, updates: Any = None, name: str | None = None, **session_kwargs: Any
    ) -> None:
        self.inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        self._single = not isinstance(outputs, (list, tuple))
        self.outputs = [outputs] if self._single else list(outputs)
        self.name = name
        self._feeds = session_kwargs.pop("feed_dict", {}) or {}
        self.fetches = list(session_kwargs.pop("fetches", []))
        with tf.control_dependencies([x for x in self.outputs if isinstance(x, (tf.Tensor, tf.Operation))]):
            ops = [tf.assign(*item) if isinstance(item, tuple) else item for item in updates or []]
            self.updates_op = tf.group(*ops, name=None)
        self._calls: dict[Any, Any] = {}

    def __call__(self, inputs: Any) -> Any:
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        # As in TensorFlow, further values are not looked at, and the session names a tensor that has none.
        # What is given None keeps its default, if it has one.
        both = zip(self.inputs, given, strict=False)
        pairs = [(place, value) for place, value in both if place is not None and value is not None]
        feeds = [place for place, _ in pairs]
        session = state.get_session(given)
        symbolic = [i for i, (_, value) in enumerate(pairs) if isinstance(value, (tf.Tensor, tf.Variable))]
        if symbolic:  # tensors of the graph stand for the values that they have now
            found = session.run([pairs[i][1] for i in symbolic], self._feeds)
            for i, value in zip(symbolic, found, strict=True):
                pairs[i] = (feeds[i], value)
        key = (id(session), *map(id, feeds))
        if key not in self._calls:
            places = [*feeds, *self._feeds]
            if builtins.any(isinstance(place, tf.SparseTensor) for place in places):
                fetches = [self.outputs, self.updates_op, self.fetches]
                self._calls = {key: lambda *values: session.run(fetches, dict(zip(places, values, strict=True)))}
            else:
                self._calls = {key: session.make_callable([self.outputs, self.updates_op, self.fetches], places)}
        values = self._calls[key](*[value for _, value in pairs], *self._feeds.values())[0]
        return values[0] if self._single else values


class EagerFunction:
    """Symbolic tensors of a model as a Python function of values, where ops run at once."""

    def __init__(self, inputs: Any, outputs: Any, updates: Any = None, name: str | None = None) -> None:
        self._is_list = isinstance(outputs, (list, tuple))
        self.inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        home = state.graph()
        wrong = [x for x in self.inputs if getattr(x, "graph", None) is not home]
        if wrong:
            raise ValueError(
                errors.message(
                    f"K.function of the input {wrong[0]!r} where ops run at once",
                    "tensors of tf.keras.Input and of layers",
                    "a Python function of values: ops run when they are applied",
                )
            )
        with home.as_default():
            self.outputs = [tf.identity(x) for x in (outputs if self._is_list else [outputs])]
            self._updates = [
                getattr(tf.assign(*update) if isinstance(update, tuple) else update, "op", update)
                for update in updates or []
            ]
        self._run = state.function_of(self.inputs, self.outputs, self._updates)

    def __call__(self, inputs: Any) -> Any:
        values = self._run(list(inputs) if isinstance(inputs, (list, tuple)) and self.inputs else [inputs])
        return values if self._is_list else values[0]


def function(inputs: Any, outputs: Any, updates: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """Tensors as a Python function of arrays.

    Example:
        >>> import anabranch as tf
        >>> K = tf.keras.backend
        >>> with tf.Graph().as_default():
        ...     x = K.placeholder((None, 2))
        ...     K.function([x], [K.sum(x)])([[[1.0, 2.0]]])
        [3.0]
    """
    if state.is_eager():
        return EagerFunction(inputs, outputs, updates, name)
    return Function(inputs, outputs, updates, name, **kwargs)


globals().update(_SAME)
