"""Weights of losses and metrics, and how weighted losses become one number."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.values import dtypes
from anabranch.losses.collected import add_loss
from anabranch.ops.array.cast import cast, ones_like
from anabranch.ops.array.public_shapes import expand_dims, rank, shape, size, squeeze
from anabranch.ops.array.sources import identity
from anabranch.ops.control.public_cond import cond
from anabranch.ops.math.checks import assert_
from anabranch.ops.math.compare import equal, not_equal
from anabranch.ops.math.public_reduce import reduce_all, reduce_sum


@public("losses.Reduction")
class Reduction:
    """How weighted losses become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All reductions."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: Any) -> None:
        """ValueError if ``key`` is not a reduction."""
        if key not in cls.all():
            raise ValueError(
                f"Invalid ReductionKey {key}.\n"
                + errors.message(f"reduction={key!r}", f"one of {', '.join(cls.all())}", "tf.losses.Reduction.MEAN")
            )


def quotient(total: Any, count: Any) -> Tensor:
    """``total / count``, and 0 where the count is 0."""
    return build("DivNoNan", total, count, name="value")


def checked_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Weights whose shape is seen to fit that of the values, now or when the step runs.

    They fit if they are a scalar, or have the same rank and each size is 1 or that of the values.
    """
    ours, theirs = weights.shape, values.shape
    if ours.ndims == 0:
        count_more(_asked(weights, values))
        return weights
    if ours.ndims is not None and theirs.ndims is not None:
        pairs = list(zip(ours.as_list(), theirs.as_list(), strict=False))
        unfit = ours.ndims != theirs.ndims or any(a not in (1, None) and b is not None and a != b for a, b in pairs)
        if unfit:
            raise ValueError(
                f"weights can not be broadcast to values. values.rank={theirs.ndims}. weights.rank={ours.ndims}. "
                f"values.shape={theirs}. weights.shape={ours}.\n"
                + errors.message(
                    f"weights of shape {ours} for values of shape {theirs}",
                    "a scalar, or the rank of the values with sizes of 1 or theirs",
                    "tf.expand_dims(weights, -1)",
                )
            )
        if all(a == 1 or (a is not None and a == b) for a, b in pairs):
            count_more(_asked(weights, values))
            return weights

    def fits() -> Tensor:
        w, v = shape(weights), shape(values)
        ones = build("LogicalOr", equal(w, ones_like(w)), equal(w, v))
        return reduce_all(ones)

    with counted_as(_asked(weights, values), captures=False):
        same_rank = equal(rank(weights), rank(values))
        scalar = equal(rank(weights), 0)
        if ours.ndims is not None and ours.ndims == theirs.ndims:
            valid = fits()
        else:
            valid = cond(scalar, lambda: constant(True), lambda: cond(same_rank, fits, lambda: constant(False)))
        text = "weights can not be broadcast to values. weights.shape="
        message = [text, shape(weights), "values.shape=", shape(values)]
        with control_dependencies([assert_(valid, message)]):
            checked: Tensor = identity(weights)
            return checked


def _known(values: Tensor) -> Any:
    return values.shape.as_list() if values.shape.is_fully_defined() else None


def _asked(weights: Tensor, values: Tensor) -> int:
    """How many operations TensorFlow's check of weights is: shapes and ranks alone, or conditionals as well."""
    ours, theirs = weights.shape, values.shape
    scalar = ours.ndims == 0 and theirs.ndims is not None
    return 5 if scalar or (ours.is_fully_defined() and theirs.is_fully_defined()) else 63


def squeezed_last(bigger: Tensor, smaller: Tensor) -> Tensor:
    """``bigger`` without its last axis of size 1, if it has one axis more than ``smaller``.

    An axis of another size is refused if both ranks are known.
    """
    if bigger.shape.ndims is not None and smaller.shape.ndims is not None:
        return squeeze(bigger, [-1]) if bigger.shape.ndims - smaller.shape.ndims == 1 else bigger
    if bigger.shape.ndims is not None and bigger.shape.as_list()[-1:] not in ([1], [None]):
        return bigger
    last = equal(rank(bigger) - rank(smaller), 1)
    squeezed: Tensor = cond(last, lambda: squeeze(bigger, [-1]), lambda: identity(bigger))
    return squeezed


def fitted_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Weights with a last axis of size 1 taken off, or put on, if that gives them the rank of the values."""
    ours, theirs = weights.shape.ndims, values.shape.ndims
    if ours == 0:
        return weights
    if ours is not None and theirs is not None:
        if ours - theirs == 1:
            return squeezed_last(weights, values)
        return expand_dims(weights, -1) if theirs - ours == 1 else weights

    def put_on() -> Any:
        fewer = equal(rank(values) - rank(weights), 1)
        return cond(fewer, lambda: expand_dims(weights, -1), lambda: identity(weights))

    fitted: Tensor = cond(equal(rank(weights), 0), lambda: identity(weights), put_on)
    return squeezed_last(fitted, values) if ours is None or ours > 1 else fitted


def _ones(losses: Tensor) -> Any:
    """Ones for the losses, which no gradient reaches."""
    return build("Fill", shape(losses), constant(1.0, losses.dtype.base))


def _present(losses: Tensor, weights: Tensor) -> Tensor:
    """Number of losses whose weight is not 0, as a float."""
    counted = cast(not_equal(weights, 0.0), losses.dtype.base)
    return reduce_sum(build("Mul", _ones(losses), counted), name="num_present")


@public("losses.compute_weighted_loss")
def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Losses times weights, as one number.

    Args:
        losses: ``[batch, d1, ..., dN]``.
        weights: a scalar, or a tensor of the same rank with sizes of 1 or those of the losses.
        scope: name of the scope.
        loss_collection: collection to add the result to; none if it is None.
        reduction: a member of `Reduction`: NONE keeps the shape, SUM sums, MEAN divides the sum by that of the weights,
            SUM_OVER_BATCH_SIZE by the number of losses, SUM_BY_NONZERO_WEIGHTS by the number of weights that are not 0.

    Returns:
        A scalar, or a tensor of the shape of the losses with NONE; of the dtype of the losses.
    """
    Reduction.validate(reduction)
    made = not hasattr(weights, "graph")  # a constant of them, which TensorFlow makes twice
    with name_scope(scope, "weighted_loss", (losses, weights)):
        losses = convert_to_tensor(losses)
        given = losses.dtype.base
        wide = losses if given.is_floating and given.size >= 4 else cast(losses, dtypes.float32)
        weights = cast(convert_to_tensor(weights), wide.dtype.base)
        weights = checked_weights(weights, losses)
        loss: Tensor = build("Mul", wide, weights)
        if reduction != Reduction.NONE:
            total = reduce_sum(loss)
            if reduction != Reduction.SUM:
                total = reduce_sum(total)  # of one number: TensorFlow's graph has it, and its gradient
            if reduction == Reduction.SUM:
                loss = total
            elif reduction == Reduction.MEAN:
                loss = quotient(total, reduce_sum(build("Mul", _ones(wide), weights)))
            elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
                loss = quotient(total, cast(size(losses), wide.dtype.base))
            else:
                loss = quotient(total, _present(wide, weights))
        loss = cast(loss, given)
        # TensorFlow checks the weights again where it counts those that are not 0.
        count_more(made)
        if reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
            alike = weights.shape.is_fully_defined() and weights.shape.as_list() == _known(losses)
            count_more(0 if alike and weights.shape.ndims else 4 + _asked(weights, losses))
        add_loss(loss, loss_collection)
        return loss
