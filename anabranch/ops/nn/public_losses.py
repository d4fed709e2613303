"""Public functions of softmax and of the losses built on logits.

Policy. They take tensors of any rank and any class dimension and bring them to the matrices that the ops of
``nn_softmax`` know; nothing is added to the graph where the tensors are matrices already. Logits of two bytes are
computed in float32 and cast back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert, static_value
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.graph.random_seed import OperationCount, count_more
from anabranch.core.values import shapes
from anabranch.ops.math import public_assert


def _one_of(function: str, new_name: str, new: Any, old_name: str, old: Any, default: Any = None) -> Any:
    if new is not None and old is not None:
        raise ValueError(
            f"Cannot specify both '{old_name}' and '{new_name}'\n"
            + errors.message(
                f"{function} with {new_name}= and {old_name}=",
                "one of the two arguments, which mean the same",
                f"{new_name}= alone",
            )
        )
    return new if new is not None else old if old is not None else default


def _axis_number(axis: Any, tensor: Any, function: str) -> int | None:
    """``axis`` counted from 0, or None where it is the last one."""
    rank = tensor.shape.ndims
    number = int(axis)
    if number == -1 or (rank is not None and number == rank - 1):
        return None
    if rank is None:
        raise ValueError(
            errors.message(
                f"{function} along axis {number} of {tensor._label}, whose rank is unknown",
                "a known rank, or the last axis",
                "x.set_shape([None, ...]) first, or pass -1",
            )
        )
    if not -rank <= number < rank:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Dimension ({number}) must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions in "
            "the input.\n"
            + errors.message(
                f"axis {number} for {function} of a tensor of shape {tensor.shape}",
                f"an axis in [{-rank}, {rank})",
                "axis=-1 for the last one",
            ),
        )
    return number % rank


def _swapped(tensor: Any, axis: int, name: str | None = None) -> Any:
    order = list(range(tensor.shape.ndims))
    order[axis], order[-1] = order[-1], order[axis]
    return build("Transpose", tensor, order, name=name or "transpose")


def _along_axis(type_name: str, logits: Any, axis: Any, name: str | None) -> Any:
    tensor = convert.convert_to_tensor(logits, name="logits")
    if isinstance(axis, Tensor):
        value = static_value.constant_value(axis)
        if value is None:
            return _along_unknown_axis(type_name, tensor, axis, name)
        axis = value
    number = _axis_number(axis, tensor, type_name)
    if number is None:
        return build(type_name, tensor, name=name)
    count_more(26)  # TensorFlow computes the order of the axes
    return _swapped(build(type_name, _swapped(tensor, number)), number, name=name)


def _along_unknown_axis(type_name: str, tensor: Any, axis: Any, name: str | None) -> Any:
    """The same along an axis that a step tells: the order that swaps it with the last one is its own inverse."""
    rank = build("Rank", tensor)
    last = build("Sub", rank, 1)
    axis = build("Cast", axis, DstT="int32")
    outside = build("Less", axis, build("Neg", rank))  # stays so, for the transposition to refuse
    from_left = build("SelectV2", build("Less", axis, 0), build("AddV2", axis, rank), axis)
    from_left = build("SelectV2", outside, build("Sub", axis, rank), from_left)
    places = build("Range", 0, rank, 1)
    order = build("SelectV2", build("Equal", places, from_left), last, places)
    order = build("SelectV2", build("Equal", places, last), from_left, order)
    swapped = build(type_name, build("Transpose", tensor, order))
    output = build("Transpose", swapped, order, name=name or "transpose")
    output.set_shape(tensor.shape)
    return output


@public("nn.softmax", "math.softmax")
def softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """``exp(logits) / sum(exp(logits), axis)``.

    Args:
        logits: floats ``[..., classes, ...]``.
        axis: the class dimension; the last one if None. ``dim`` is its old name.
        name: name of the op.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    return _along_axis("Softmax", logits, _one_of("tf.nn.softmax", "axis", axis, "dim", dim, -1), name)


@public("nn.log_softmax", "math.log_softmax")
def log_softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """``logits - log(sum(exp(logits), axis))``; arguments as :func:`softmax`."""
    return _along_axis("LogSoftmax", logits, _one_of("tf.nn.log_softmax", "axis", axis, "dim", dim, -1), name)


def _require_names(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(
            f"Only call `{function}` with named arguments (labels=..., logits=..., ...)\n"
            + errors.message(
                "a first argument without a name",
                "labels and logits by name, because their order has been mixed up too often",
                f"tf.nn.{function}(labels=labels, logits=logits)",
            )
        )
    if labels is None or logits is None:
        raise ValueError(
            "Both labels and logits must be provided.\n"
            + errors.message(
                f"tf.nn.{function} without {'labels' if labels is None else 'logits'}",
                "both labels and logits",
                f"tf.nn.{function}(labels=labels, logits=logits)",
            )
        )


def _precise(logits: Any) -> Any:
    return build("Cast", logits, DstT="float32") if logits.dtype.base.name in ("float16", "bfloat16") else logits


def _as_dtype_of(loss: Any, logits: Any) -> Any:
    return loss if loss.dtype.base == logits.dtype.base else build("Cast", loss, DstT=logits.dtype.base)


def _rows(tensor: Any) -> Any:
    """``[..., classes]`` as a matrix."""
    raw = tensor.shape.raw
    if raw is not None and len(raw) == 2:
        return tensor
    if raw is not None and raw and raw[-1] is not None:
        return build("Reshape", tensor, [-1, raw[-1]])
    last = build("StridedSlice", build("Shape", tensor), [-1], [0], [1], end_mask=1)
    return build("Reshape", tensor, build("ConcatV2", [[-1], last], 0))


def _cross_entropy(labels: Any, logits: Any, axis: Any, name: str | None, function: str) -> Any:
    logits = convert.convert_to_tensor(logits, name="logits")
    if not logits.dtype.base.is_floating:
        raise TypeError(
            f"Value passed to parameter 'features' has DataType {logits.dtype.base.name} not in list of allowed "
            "values: float16, bfloat16, float32, float64\n"
            + errors.message(
                f"logits of dtype {logits.dtype.base.name} for tf.nn.{function}",
                "logits of a float dtype",
                "tf.cast(logits, tf.float32); class numbers belong in labels=",
            )
        )
    precise = _precise(logits)
    counted = OperationCount()
    labels = convert.convert_to_tensor(labels, None if _is_tensor(labels) else precise.dtype.base, name="labels")
    if labels.dtype.base != precise.dtype.base:
        labels = build("Cast", labels, DstT=precise.dtype.base)
    number = _axis_number(axis, logits, function)
    if number is not None:
        order = [i for i in range(logits.shape.ndims) if i != number] + [number]
        precise, labels = build("Transpose", precise, order), build("Transpose", labels, order)
    if logits.shape.ndims == 2:
        loss = build("SoftmaxCrossEntropyWithLogits", precise, _rows(labels), name=name)[0]
        counted.set(31 if number is None else 53)
        return _as_dtype_of(loss, logits)
    loss = build("SoftmaxCrossEntropyWithLogits", _rows(precise), _rows(labels), name=name)[0]
    lead = None if precise.shape.raw is None else precise.shape.raw[:-1]
    if shapes.is_static(lead):
        target = convert.constant(list(lead or ()), "int32")
    else:
        target = build("StridedSlice", build("Shape", precise), [0], [-1], [1], begin_mask=1)
    loss = build("Reshape", loss, target)
    if lead is not None:
        loss.set_shape(lead)
    counted.set(31 if number is None else 53)
    return _as_dtype_of(loss, logits)


def _is_tensor(value: Any) -> bool:
    """Whether a value has a dtype of its own: a tensor, with a value or of a graph, or a variable."""
    return isinstance(value, Tensor) or (hasattr(value, "dtype") and not isinstance(value, np.ndarray | np.generic))


@public("nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy_with_logits_v2(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = None,
    name: str | None = None,
    axis: Any = None,
) -> Any:
    """Cross entropy of ``labels`` and ``softmax(logits)``; gradients flow into both.

    Args:
        labels: probabilities ``[..., classes]`` that sum to 1 along the class dimension.
        logits: unscaled log probabilities ``[..., classes]``.
        dim: the class dimension; the last one if None. ``axis`` is its other name.
        name: name of the op.

    Returns:
        The loss ``[...]``, without the class dimension.

    Raises:
        ValueError: arguments without names, or one of them is missing.
    """
    function = "softmax_cross_entropy_with_logits_v2"
    _require_names("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    axis = _one_of("tf.nn." + function, "axis", axis, "dim", dim, -1)
    with name_scope(name, "softmax_cross_entropy_with_logits", [labels, logits]) as scope:
        return _cross_entropy(labels, logits, axis, scope, function)


@public("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = None,
    name: str | None = None,
    axis: Any = None,
) -> Any:
    """Like :func:`softmax_cross_entropy_with_logits_v2`, but no gradient flows into ``labels``."""
    function = "softmax_cross_entropy_with_logits"
    _require_names(function, _sentinel, labels, logits)
    axis = _one_of("tf.nn." + function, "axis", axis, "dim", dim, -1)
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [labels, logits]) as scope:
        logits = convert.convert_to_tensor(logits, name="logits")
        if not _is_tensor(labels) and logits.dtype.base.is_floating:
            labels = convert.convert_to_tensor(labels, _precise_name(logits), name="labels")
        labels = build("StopGradient", labels, name="labels_stop_gradient")
        return _cross_entropy(labels, logits, axis, scope, function)


def _precise_name(logits: Any) -> Any:
    return "float32" if logits.dtype.base.name in ("float16", "bfloat16") else logits.dtype.base


@public("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Cross entropy of ``softmax(logits)`` and the class that each label names.

    Args:
        labels: class numbers ``[...]``, int32 or int64, in ``[0, classes)``.
        logits: unscaled log probabilities ``[..., classes]``.
        name: name of the op.

    Returns:
        The loss ``[...]``.

    Raises:
        ValueError: the ranks do not fit. InvalidArgumentError (when it runs): a label names no class.
    """
    _require_names("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = convert.convert_to_tensor(labels)
        logits = convert.convert_to_tensor(logits)
        rank, own = logits.shape.ndims, labels.shape.ndims
        if rank == 0:
            raise ValueError(
                f"Logits cannot be scalars - received shape {logits.shape}.\n"
                + errors.message("scalar logits", "[..., classes]", "tf.expand_dims(logits, 0)")
            )
        if rank is not None and own is not None and own != rank - 1:
            raise ValueError(
                f"Rank mismatch: Rank of labels (received {own}) should equal rank of logits minus 1 "
                f"(received {rank}).\n"
                + errors.message(
                    f"labels of shape {labels.shape}, logits of shape {logits.shape}",
                    "class numbers, one per row of the logits",
                    "tf.argmax(labels, -1) for one-hot labels, tf.squeeze(labels, [-1]) for a column of numbers",
                )
            )
        precise = _precise(logits)
        counted = OperationCount()
        if rank == 2:
            if shapes.is_static(labels._shape) and shapes.is_static(logits._shape[:-1]):
                _same_rows(labels, logits)
            loss = build("SparseSoftmaxCrossEntropyWithLogits", precise, labels, name=name)[0]
            counted.set(2)
            return _as_dtype_of(loss, logits)
        alike = _same_rows(labels, logits)  # checked before the rows are counted together
        target = (
            convert.constant(labels.shape.as_list(), "int32")
            if labels.shape.is_fully_defined()
            else build("Shape", labels)
        )
        with control_dependencies(alike):
            rows = build("Reshape", labels, [-1])
        loss = build(
            "Reshape", build("SparseSoftmaxCrossEntropyWithLogits", _rows(precise), rows, name=name)[0], target
        )
        loss.set_shape(labels.shape)
        count_more(11)
        return _as_dtype_of(loss, logits)


def _same_rows(labels: Any, logits: Any) -> list[Any]:
    """What a step must wait for so that labels have the shape of logits without their classes, if that is not known."""
    own, whole = labels._shape, logits._shape
    if shapes.is_static(own) and whole is not None and shapes.is_static(whole[:-1]):
        if tuple(own) != tuple(whole[:-1]):
            raise ValueError(
                f"Shape mismatch: The shape of labels (received {labels.shape}) should equal the shape of logits "
                f"except for the last dimension (received {logits.shape}).\n"
                + errors.message(
                    f"labels of shape {labels.shape}, logits of shape {logits.shape}",
                    f"labels of shape {logits.shape[:-1]}",
                    "tf.transpose(labels), or of the logits, where one of them has the time first",
                )
            )
        return []
    return [public_assert.assert_equal(build("Shape", labels), build("Shape", logits)[:-1])]


def _same_shapes(first: Any, second: Any, first_name: str, second_name: str) -> None:
    try:
        shapes.merge(first.shape.raw, second.shape.raw)
    except ValueError:
        raise ValueError(
            f"{first_name} and {second_name} must have the same shape ({first.shape} vs {second.shape})\n"
            + errors.message(
                f"{first_name} of shape {first.shape}, {second_name} of shape {second.shape}",
                "one shape",
                f"tf.reshape({second_name}, tf.shape({first_name})), or tf.one_hot for class numbers",
            )
        ) from None


@public("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """``max(x, 0) - x * z + log(1 + exp(-|x|))`` of logits ``x`` and labels ``z`` in [0, 1], element by element.

    Args:
        labels: floats of the shape and dtype of ``logits``.
        logits: unscaled log odds.
        name: name of the op.
    """
    _require_names("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert.convert_to_tensor(logits, name="logits")
        labels = convert.convert_to_tensor(labels, None if _is_tensor(labels) else logits.dtype.base, name="labels")
        _same_shapes(logits, labels, "logits", "labels")
        zeros = build("ZerosLike", logits)
        positive = build("GreaterEqual", logits, zeros)
        relu = build("Select", positive, logits, zeros)
        falling = build("Select", positive, build("Neg", logits), logits)
        linear = build("Sub", relu, build("Mul", logits, labels))
        return build("Add", linear, build("Log1p", build("Exp", falling)), name=scope)


@public("nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Any:
    """Sigmoid cross entropy in which positive targets count ``pos_weight`` times.

    Args:
        labels: floats of the shape and dtype of ``logits``; ``targets`` is its other name.
        logits: unscaled log odds.
        pos_weight: number or tensor that broadcasts against ``logits``.
        name: name of the op.
    """
    targets = _one_of("tf.nn.weighted_cross_entropy_with_logits", "labels", labels, "targets", targets)
    with name_scope(name, "logistic_loss", [logits, targets]) as scope:
        logits = convert.convert_to_tensor(logits, name="logits")
        targets = convert.convert_to_tensor(targets, None if _is_tensor(targets) else logits.dtype.base, name="targets")
        _same_shapes(logits, targets, "logits", "targets")
        weight = 1.0 + (pos_weight - 1.0) * targets
        tail = build("Log1p", build("Exp", build("Neg", build("Abs", logits))))
        bent = build("Add", tail, build("Relu", build("Neg", logits)))
        linear = build("Mul", build("Sub", 1.0, targets), logits)
        return build("Add", linear, build("Mul", weight, bent), name=scope)


@public("nn.log_poisson_loss")
def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Any:
    """``exp(c) - z * c`` of log predictions ``c`` and targets ``z``; the full loss adds Stirling's ``log(z!)``.

    The approximation ``z * log(z) - z + log(2 * pi * z) / 2`` is used where ``z > 1``; elsewhere ``log(z!)`` counts 0.
    """
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert.convert_to_tensor(log_input, name="log_input")
        targets = convert.convert_to_tensor(
            targets, None if _is_tensor(targets) else log_input.dtype.base, name="targets"
        )
        _same_shapes(log_input, targets, "log_input", "targets")
        base = build("Sub", build("Exp", log_input), build("Mul", log_input, targets), name="sub")
        if not compute_full_loss:
            return base
        stirling = build(
            "Add",
            build("Sub", build("Mul", targets, build("Log", targets)), targets),
            build("Mul", 0.5, build("Log", build("Mul", 6.283185307179586, targets))),
        )
        zeros = build("ZerosLike", targets)
        inside = build(
            "LogicalAnd", build("GreaterEqual", targets, zeros), build("LessEqual", targets, build("OnesLike", targets))
        )
        return build("Add", base, build("Select", inside, zeros, stirling), name="add_1")
