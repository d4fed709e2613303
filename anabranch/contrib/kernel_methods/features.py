"""Random Fourier features, and the hinge loss of several classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.kernel_methods.InvalidShapeError")
class InvalidShapeError(Exception):
    """Features of a shape that a mapper does not take."""


@public("contrib.kernel_methods.RandomFourierFeatureMapper")
class RandomFourierFeatureMapper:
    """Features whose products stand for a Gaussian kernel (Rahimi and Recht, 2007).

    Args:
        input_dim: number of features of an example.
        output_dim: number of features that they are mapped to.
        stddev: the width of the kernel ``exp(-|x - y|^2 / (2 stddev^2))``.
        seed: of the random directions, NumPy's.
        name: its name.

    Example:
        >>> import anabranch as tf
        >>> mapper = tf.contrib.kernel_methods.RandomFourierFeatureMapper(3, 100, stddev=2.0)
        >>> with tf.Graph().as_default():
        ...     print(mapper.map(tf.zeros([5, 3])).shape)
        (5, 100)
    """

    def __init__(
        self, input_dim: int, output_dim: int, stddev: float = 1.0, seed: int = 1, name: str | None = None
    ) -> None:
        self._input_dim, self._output_dim, self._stddev = input_dim, output_dim, stddev
        self._seed, self._name = seed, name

    @property
    def name(self) -> str:
        """The name that was given, or one of its own."""
        return self._name or str(id(self))

    @property
    def input_dim(self) -> int:
        """Number of features of an example."""
        return self._input_dim

    @property
    def output_dim(self) -> int:
        """Number of features that they are mapped to."""
        return self._output_dim

    def map(self, input_tensor: Any) -> Any:
        """The features ``[examples, output_dim]`` of examples ``[examples, input_dim]``.

        Raises:
            InvalidShapeError: they have another shape.
        """
        shape = input_tensor.get_shape()
        if shape.ndims != 2:
            raise InvalidShapeError(
                f"The shape of the tensor should be 2. Got {shape.ndims} instead.\n"
                + errors.message(f"shape {shape}", f"[examples, {self._input_dim}]", "tf.reshape(x, [-1, 10])")
            )
        if shape.as_list()[1] != self._input_dim:
            raise InvalidShapeError(
                f"Invalid dimension: expected {self._input_dim} input features, got {shape.as_list()[1]} instead.\n"
                + errors.message(
                    f"shape {shape}",
                    f"[examples, {self._input_dim}]",
                    "RandomFourierFeatureMapper(features.shape[1].value, 100)",
                )
            )
        random = np.random.RandomState(self._seed)
        omega = random.normal(scale=1.0 / self._stddev, size=[self._input_dim, self._output_dim])
        bias = random.uniform(low=0.0, high=2 * np.pi, size=[self._output_dim])
        angles = tf.matmul(input_tensor, tf.constant(omega, tf.float32)) + tf.constant(bias, tf.float32)
        return math.sqrt(2.0 / self._output_dim) * tf.cos(angles)


@public("contrib.kernel_methods.sparse_multiclass_hinge_loss")
def sparse_multiclass_hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = tf.GraphKeys.LOSSES,
    reduction: str = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """The hinge loss of several classes: by how much the best wrong logit, and 1, is above the right one.

    Args:
        labels: int32 or int64 classes ``[batch]`` or ``[batch, 1]``.
        logits: ``[batch, classes]``.
        weights: a scalar, ``[batch]`` or ``[batch, 1]``.
        scope: name of the scope.
        loss_collection: collection to add the result to; none if it is None.
        reduction: a member of `tf.losses.Reduction`.

    Returns:
        A float32 scalar, or ``[batch]`` with NONE.

    Raises:
        ValueError: ranks or dtypes are wrong.
        InvalidArgumentError: in the step, if a label is not below the number of classes.
    """
    with tf.name_scope(scope, "sparse_multiclass_hinge_loss", (logits, labels)) as scope:
        logits, labels = tf.convert_to_tensor(logits), tf.convert_to_tensor(labels)
        _require(
            logits.shape.ndims == 2,
            f"logits should have rank 2 ([batch_size, num_classes]). Given rank is {logits.shape.ndims}",
        )
        _require(
            labels.dtype in (tf.int32, tf.int64),
            f"Invalid dtype for labels: {labels.dtype}. Acceptable dtypes: int32 and int64",
        )
        _require(
            labels.shape.ndims in (1, 2),
            f"labels should have rank 1 ([batch_size]) or 2 ([batch_size, 1]). Given rank is {labels.shape.ndims}",
        )
        logits = tf.to_float(logits)
        classes = tf.shape(logits)[1]
        with tf.control_dependencies([tf.assert_less(labels, tf.cast(classes, labels.dtype))]):
            labels = tf.reshape(labels, [-1])
        weights = tf.convert_to_tensor(weights)
        _require(
            weights.shape.ndims in (0, 1, 2),
            "non-scalar weights should have rank 1 ([batch_size]) or 2 ([batch_size, 1]). "
            f"Given rank is {weights.shape.ndims}",
        )
        if weights.shape.ndims:
            weights = tf.reshape(weights, [-1])
            weights.shape.assert_is_compatible_with(labels.shape)
        others = tf.one_hot(labels, classes, on_value=0.0, off_value=1.0)
        right = tf.batch_gather(logits, tf.expand_dims(labels, 1))
        loss = tf.reduce_max(tf.nn.relu(logits - right + others), axis=1)
        return tf.losses.compute_weighted_loss(loss, weights, scope, loss_collection, reduction=reduction)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        wanted = "logits [batch, classes], int labels and weights [batch] or [batch, 1]"
        raise ValueError(
            f"{problem}\n" + errors.message(problem, wanted, "tf.reshape(labels, [-1]), tf.cast(labels, tf.int32)")
        )
