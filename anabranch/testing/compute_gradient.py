"""``tf.test.compute_gradient`` and ``compute_gradient_error``: whole Jacobians, as TensorFlow 1.x's tests compare
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.autodiff.gradients import gradients
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.session import get_default_session


@public("test.compute_gradient")
def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: dict[Any, Any] | None = None,
) -> Any:
    """Compute the theoretical and the numeric Jacobian of ``y`` with respect to ``x`` in the default session.

    Args:
        x: a tensor or a list of tensors.
        x_shape: the shape of ``x`` as a list of ints, or a list of shapes.
        y: a tensor.
        y_shape: its shape.
        x_init_value: array at which the Jacobians are computed (a list for a list of tensors); random if None,
            in [0, 1) from `np.random`.
        delta: half the distance of the central differences.
        init_targets: operations that are run before (initialisers of variables).
        extra_feed_dict: what else must be fed.

    Returns:
        ``(theoretical, numeric)``, arrays of shape ``[size of x, size of y]``; real and imaginary part count as two
        elements of a complex tensor. A list of such pairs for a list of tensors.

    Raises:
        ValueError: there is no default session. AssertionError, as in TensorFlow: there is no gradient from ``y`` to
            ``x``, one of them has no floats, or ``x_init_value`` has another shape.
    """
    session = get_default_session()
    if session is None:
        raise ValueError(
            errors.message("no default session", "a session to compute in", "with tf.Session(): compute_gradient(...)")
        )
    if init_targets is not None:
        session.run(init_targets)
    feed = dict(extra_feed_dict or {})
    if not isinstance(x, list):
        return _pair(session, x, x_shape, y, y_shape, x_init_value, delta, feed)
    starts = [None] * len(x) if x_init_value is None else list(x_init_value)
    starts = [_start(xi, shape, value) for xi, shape, value in zip(x, x_shape, starts, strict=True)]
    jacobians = []
    for i, xi in enumerate(x):
        others = {other: value for j, (other, value) in enumerate(zip(x, starts, strict=True)) if j != i}
        jacobians.append(_pair(session, xi, x_shape[i], y, y_shape, starts[i], delta, {**feed, **others}))
    return jacobians


@public("test.compute_gradient_error")
def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: dict[Any, Any] | None = None,
) -> float:
    """Compute the greatest difference between the theoretical and the numeric Jacobian (see
    `tf.test.compute_gradient`).
    """
    jacobians = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    worst = 0.0
    for theoretical, numeric in jacobians if isinstance(jacobians, list) else [jacobians]:
        if theoretical.size or numeric.size:
            worst = np.fmax(worst, np.fabs(theoretical - numeric).max())
    return float(worst)


def _start(x: Any, shape: Any, value: Any) -> np.ndarray:
    dtype = x.dtype.base.np
    if value is None:
        value = np.random.random_sample(tuple(shape))  # the program's `np.random.seed` holds, as in TensorFlow
        if x.dtype.base.is_complex:
            value = value + 1j * np.random.random_sample(tuple(shape))
    array = np.array(value, dtype)
    if list(array.shape) != list(shape):
        raise AssertionError(
            f"x_shape = {list(shape)}, init_data shape = {list(array.shape)}\n"
            + errors.message(
                f"x_init_value of shape {list(array.shape)}", f"{list(shape)}, x_shape", "tf.reshape(x, shape)"
            )
        )
    return array


def _pair(
    session: Any, x: Any, x_shape: Any, y: Any, y_shape: Any, value: Any, delta: float, feed: dict[Any, Any]
) -> tuple[np.ndarray, np.ndarray]:
    for name, tensor in (("x", x), ("y", y)):
        if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
            raise AssertionError(
                f"Don't support type {tensor.dtype.name} for {name}\n"
                + errors.message(f"{name}, {tensor.name!r}", "floats or complex numbers", "tf.cast(x, tf.float32)")
            )
    start = _start(x, x_shape, value)
    with session.graph.as_default():
        cotangent = build("Placeholder", dtype=y.dtype.base, shape=list(y_shape), name="cotangent")
        gradient = gradients(y, x, grad_ys=[cotangent])[0]
        if gradient is None:
            raise AssertionError(
                "dx = None\n"
                + errors.message(
                    f"no gradient from {y.name!r} to {x.name!r}", "a y that depends on x", "pass other tensors"
                )
            )
        dense = convert_to_tensor(gradient)
    theoretical = _columns(
        cotangent.dtype.base.np, y_shape, lambda u: session.run(dense, {**feed, x: start, cotangent: u}), start
    )
    return theoretical, _differences(lambda at: session.run(y, {**feed, x: at}), start, y, y_shape, delta)


def _columns(dtype: Any, y_shape: Any, pullback: Callable[[np.ndarray], Any], start: np.ndarray) -> np.ndarray:
    """The Jacobian from one cotangent for each real component of y."""
    unit = np.zeros(tuple(y_shape), dtype)
    components = _components(unit)
    jacobian = np.zeros((_components(start).size, components.size), start.real.dtype)
    for column in range(components.size):
        components[column] = 1
        jacobian[:, column] = _components(np.ascontiguousarray(pullback(unit)))
        components[column] = 0
    return jacobian


def _differences(f: Callable[[np.ndarray], Any], start: np.ndarray, y: Any, y_shape: Any, delta: float) -> np.ndarray:
    """The Jacobian from central differences along each real component of x."""
    at = start.copy()
    components = _components(at)
    outputs = _components(np.zeros(tuple(y_shape), y.dtype.base.np)).size
    jacobian = np.zeros((components.size, outputs), start.real.dtype)
    for row in range(components.size):
        middle = components[row]
        components[row] = middle + delta
        up = _components(np.ascontiguousarray(f(at)))
        components[row] = middle - delta
        down = _components(np.ascontiguousarray(f(at)))
        components[row] = middle
        jacobian[row] = (up - down) / (2 * delta)
    return jacobian


def _components(array: np.ndarray) -> np.ndarray:
    """The real components of an array, flat; a view on a contiguous one."""
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
