"""Virtual batch normalization (Salimans et al., 2016): each example is normalized with a batch that stays the same."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


def _axis(batch: Any, axis: int) -> int:
    rank = batch.shape.ndims
    if rank is None:
        raise ValueError(
            "`reference_batch` has unknown dimensions.\n"
            + errors.message("a batch of unknown rank", "a batch of known rank", "batch.set_shape([None, 28, 28, 3])")
        )
    if not -rank <= axis < rank:
        raise ValueError(
            f"Value of `axis` argument {axis} is out of range for input with rank {rank}\n"
            + errors.message(f"axis {axis}", f"an axis of {-rank} to {rank - 1}", "axis=-1")
        )
    return axis % rank


def _moments(x: Any, axes: list[int]) -> list[Any]:
    """Mean and mean of squares, computed in 32 bits, with axes of size 1 where there were others."""
    wide = tf.to_float(x) if x.dtype == tf.float16 else x
    return [tf.cast(tf.reduce_mean(y, axes, keepdims=True), x.dtype) for y in (wide, tf.square(wide))]


@public("contrib.gan.features.VBN")
class VBN:
    """Normalize examples by the statistics of a batch that stays the same, and of themselves.

    With ``n`` examples in that batch, an example counts as one of ``n + 1``, so that no example depends on others of
    its step. Call the object with inputs ``[batch, ...]``.

    Args:
        reference_batch: the batch that stays the same.
        axis: the axis of features, which has statistics for each.
        epsilon: is added to variances.
        center: add a variable ``beta``.
        scale: multiply by a variable ``gamma``.
        beta_initializer: zeros by default.
        gamma_initializer: ones by default.
        beta_regularizer: function from the variable to a loss.
        gamma_regularizer: likewise.
        trainable: whether the variables are trained.
        name: variable scope.
        batch_axis: the axis of examples.

    Raises:
        ValueError: an axis is out of range, both axes are the same, or the rank is unknown.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     normalize = tf.contrib.gan.features.VBN(tf.constant([[0.0], [2.0]]), epsilon=0.0, scale=False, center=False)
    ...     print(session.run(normalize(tf.constant([[1.0]]))))
    [[0.]]
    """

    def __init__(
        self,
        reference_batch: Any,
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        trainable: bool = True,
        name: str | None = None,
        batch_axis: int = 0,
    ) -> None:
        axis, self._batch_axis = _axis(reference_batch, axis), _axis(reference_batch, batch_axis)
        if axis == self._batch_axis:
            raise ValueError(
                "`axis` and `batch_axis` cannot be the same.\n"
                + errors.message(f"axis {axis} for both", "two axes", "axis=-1, batch_axis=0")
            )
        shape = reference_batch.shape
        self._epsilon, self._reference = epsilon, reference_batch
        with tf.variable_scope(name, "VBN", values=[reference_batch]) as self._scope:
            others = [place for place in range(shape.ndims) if place != axis]
            self._own_axes = [place for place in others if place != self._batch_axis]
            self._sizes = [shape[place].value if place == axis else 1 for place in range(shape.ndims)]
            self._kept = _moments(reference_batch, others)
            count = tf.cast(tf.shape(reference_batch)[self._batch_axis], reference_batch.dtype)
            self._weight = 1.0 / (count + 1.0)
            self._beta = self._gamma = None
            options: dict[str, Any] = {"shape": [shape[axis].value], "trainable": trainable}
            if center:
                self._beta = tf.get_variable(
                    "beta",
                    initializer=beta_initializer or tf.zeros_initializer(),
                    regularizer=beta_regularizer,
                    **options,
                )
            if scale:
                self._gamma = tf.get_variable(
                    "gamma",
                    initializer=gamma_initializer or tf.ones_initializer(),
                    regularizer=gamma_regularizer,
                    **options,
                )

    def _normalized(self, x: Any, mean: Any, squares: Any) -> Any:
        offset, scale = (None if v is None else tf.reshape(v, self._sizes) for v in (self._beta, self._gamma))
        return tf.nn.batch_normalization(x, mean, squares - tf.square(mean), offset, scale, self._epsilon)

    def reference_batch_normalization(self) -> Any:
        """The batch that stays the same, normalized by its own statistics."""
        with tf.name_scope(self._scope.name):
            return self._normalized(self._reference, *self._kept)

    def __call__(self, inputs: Any) -> Any:
        """Inputs ``[batch, ...]``, normalized one by one; ValueError if their shape is another one."""
        wanted, given = (tensor.shape.as_list() for tensor in (self._reference, inputs))
        for sizes in (wanted, given):
            del sizes[self._batch_axis]
        tf.TensorShape(given).assert_is_compatible_with(wanted)
        with tf.name_scope(self._scope.name, values=[inputs, self._reference]):
            own = _moments(inputs, self._own_axes)
            together = [
                self._weight * new + (1.0 - self._weight) * old for new, old in zip(own, self._kept, strict=True)
            ]
            return self._normalized(inputs, *together)
