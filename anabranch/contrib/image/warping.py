"""Images that are moved pixel by pixel: by a field of displacements, or by control points and splines between them."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

_TINY = 1e-10
"""Below it squared distances count as this: logarithms and slopes of roots are finite."""


@public("contrib.image.dense_image_warp")
def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Any:
    """An image whose pixel in row j and column i is that of another in row ``j - flow[b, j, i, 0]`` and column
    ``i - flow[b, j, i, 1]``.

    What lies between pixels is interpolated, what lies outside has the value at the edge.

    Args:
        image: ``[batch, height, width, channels]``, at least two pixels high and wide.
        flow: ``[batch, height, width, 2]``, in pixels down and right.
        name: of the operations.
    """
    with tf.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        if image.get_shape().ndims not in (None, 4):
            raise ValueError(
                f"Grid must be 4 dimensional. Received size: {image.get_shape()}\n"
                + errors.message(f"an image of shape {image.get_shape()}", "rank 4", "image[None] for a single image")
            )
        sizes = tf.shape(image)
        checks = [
            tf.assert_greater_equal(sizes[1], 2, message="Grid height must be at least 2."),
            tf.assert_greater_equal(sizes[2], 2, message="Grid width must be at least 2."),
        ]
        with tf.control_dependencies(checks):
            batch = tf.range(sizes[0])[:, None, None] + tf.zeros_like(flow[..., 0], tf.int32)
        places = []
        for axis in (0, 1):
            own = tf.reshape(tf.range(sizes[axis + 1]), [1, -1, 1] if axis == 0 else [1, 1, -1])
            at = tf.cast(own, flow.dtype) - flow[..., axis]
            before = tf.clip_by_value(tf.floor(at), 0, tf.cast(sizes[axis + 1] - 2, flow.dtype))
            share = tf.clip_by_value(tf.cast(at - before, image.dtype), 0, 1)[..., None]
            places.append((tf.cast(before, tf.int32), share))
        (row, down), (column, right) = places

        def pixels(below: int, beside: int) -> Any:
            return tf.gather_nd(image, tf.stack([batch, row + below, column + beside], -1))

        top = right * (pixels(0, 1) - pixels(0, 0)) + pixels(0, 0)
        bottom = right * (pixels(1, 1) - pixels(1, 0)) + pixels(1, 0)
        return tf.reshape(down * (bottom - top) + top, sizes)


@public("contrib.image.interpolate_spline")
def interpolate_spline(
    train_points: Any,
    train_values: Any,
    query_points: Any,
    order: int,
    regularization_weight: float = 0.0,
    name: str = "interpolate_spline",
) -> Any:
    """Values at points by a polyharmonic spline through others (a thin plate for order 2 in two dimensions).

    Args:
        train_points: ``[batch, n, d]``; ``d`` must be known.
        train_values: ``[batch, n, k]``; ``k`` must be known.
        query_points: ``[batch, m, d]``.
        order: of the spline.
        regularization_weight: how smooth it is where it need not go through all points.
        name: of the operations.

    Returns:
        ``[batch, m, k]``.
    """
    with tf.name_scope(name):
        points, values, queries = map(tf.convert_to_tensor, (train_points, train_values, query_points))
        for tensor, what in ((points, "input points (d)"), (values, "output values (k)")):
            if tensor.get_shape().ndims != 3 or tensor.get_shape()[-1].value is None:
                raise ValueError(
                    f"The dimensionality of the {what} must be statically-inferrable.\n"
                    + errors.message(
                        f"a tensor of shape {tensor.get_shape()}", "[batch, n, a number]", "x.set_shape(...)"
                    )
                )
        count, size = tf.shape(points)[1], points.get_shape()[-1].value
        kernel = _spline(_squared_distances(points, points), order)
        if regularization_weight > 0:
            kernel += regularization_weight * tf.eye(count, dtype=points.dtype)[None]
        linear = tf.concat([points, tf.ones_like(points[..., :1])], 2)
        corner = tf.zeros([tf.shape(points)[0], size + 1, size + 1], points.dtype)
        above = tf.concat([kernel, linear], 2)
        below = tf.concat([tf.transpose(linear, [0, 2, 1]), corner], 2)
        rest = tf.zeros([tf.shape(points)[0], size + 1, values.get_shape()[-1].value], points.dtype)
        weights = tf.matrix_solve(tf.concat([above, below], 1), tf.concat([values, rest], 1))
        near = tf.matmul(_spline(_squared_distances(queries, points), order), weights[:, :count])
        return near + tf.matmul(tf.concat([queries, tf.ones_like(queries[..., :1])], 2), weights[:, count:])


def _squared_distances(x: Any, y: Any) -> Any:
    """``[batch, n, m]`` of points ``[batch, n, d]`` and ``[batch, m, d]``."""
    return tf.reduce_sum(tf.squared_difference(x[:, :, None], y[:, None]), -1)


def _spline(squares: Any, order: int) -> Any:
    """The polyharmonic function of squared distances."""
    bounded = tf.maximum(squares, _TINY)
    if order == 1:
        return tf.sqrt(bounded)
    if order in (2, 4):
        return 0.5 * (squares if order == 2 else tf.square(squares)) * tf.log(bounded)
    power = tf.pow(bounded, 0.5 * order)
    return 0.5 * power * tf.log(bounded) if order % 2 == 0 else power


@public("contrib.image.sparse_image_warp")
def sparse_image_warp(
    image: Any,
    source_control_point_locations: Any,
    dest_control_point_locations: Any,
    interpolation_order: int = 2,
    regularization_weight: float = 0.0,
    num_boundary_points: int = 0,
    name: str = "sparse_image_warp",
) -> tuple[Any, Any]:
    """An image moved such that some points come to lie at others; a spline moves what is between them.

    Args:
        image: ``[batch, height, width, channels]``; batch, height and width must be known.
        source_control_point_locations: ``[batch, points, 2]``, rows and columns.
        dest_control_point_locations: where they come to lie.
        interpolation_order: of the spline.
        regularization_weight: see :func:`interpolate_spline`.
        num_boundary_points: which points of each edge stay: 0 for none, 1 for the corners, n for n - 1 between these,
            too.
        name: of the operations.

    Returns:
        The image, and the displacements ``[batch, height, width, 2]``.
    """
    with tf.name_scope(name):
        image, source, dest = map(
            tf.convert_to_tensor, (image, source_control_point_locations, dest_control_point_locations)
        )
        batch, height, width, _ = image.get_shape().as_list()
        if None in (batch, height, width):
            raise ValueError(
                errors.message(
                    f"an image of shape {image.get_shape()}", "known batch, height and width", "image.set_shape(...)"
                )
            )
        flows = dest - source
        if num_boundary_points > 0:
            edge = np.tile(_boundary(height, width, num_boundary_points - 1)[None], [batch, 1, 1])
            dest = tf.concat([dest, tf.constant(edge, dest.dtype)], 1)
            flows = tf.concat([flows, tf.zeros(edge.shape, flows.dtype)], 1)
        grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), -1).reshape([1, -1, 2])
        everywhere = tf.constant(np.tile(grid, [batch, 1, 1]), image.dtype)
        dense = interpolate_spline(dest, flows, everywhere, interpolation_order, regularization_weight)
        dense = tf.reshape(dense, [batch, height, width, 2])
        return dense_image_warp(image, dense), dense


def _boundary(height: int, width: int, between: int) -> np.ndarray:
    """Rows and columns of the corners and of points between them on each edge."""
    rows, columns = np.meshgrid(
        np.linspace(0, height - 1, between + 2), np.linspace(0, width - 1, between + 2), indexing="ij"
    )
    on_edge = (columns == 0) | (columns == width - 1) | (rows == 0) | (rows == height - 1)
    return np.stack([rows[on_edge], columns[on_edge]], -1)
