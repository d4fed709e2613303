"""Public functions of means, variances and normalisation.

Policy. Statistics of two-byte floats are computed in float32 and cast back. ``axes`` may be a list or one number;
``keepdims`` is the later name of ``keep_dims``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more


def _cast(tensor: Any, dtype: Any, name: str | None = None) -> Any:
    return tensor if tensor.dtype.base == dtype else build("Cast", tensor, DstT=dtype, name=name)


def _halves(tensor: Any) -> bool:
    return tensor.dtype.base.name in ("float16", "bfloat16")


def _keep(function: str, keep_dims: Any, keepdims: Any) -> bool:
    if keep_dims is not None and keepdims is not None:
        raise ValueError(
            "Cannot specify both 'keep_dims' and 'keepdims'\n"
            + errors.message(
                f"tf.nn.{function} with keep_dims= and keepdims=",
                "one of the two arguments, which mean the same",
                "keepdims= alone",
            )
        )
    return bool(keepdims if keepdims is not None else keep_dims or False)


def _axis_list(axes: Any) -> Any:
    return axes if hasattr(axes, "graph") else [axes] if not isinstance(axes, Sequence) else list(axes)


def _pair(mean: Any, variance: Any, axes: Any, keep: bool, dtype: Any) -> tuple[Any, Any]:
    if not keep:
        mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
    return _cast(mean, dtype), _cast(variance, dtype)


def _squeezed(tensor: Any, axes: Any) -> Any:
    if hasattr(axes, "graph"):
        raise TypeError(
            errors.message("axes as a tensor", "axes known when the graph is built, or keep_dims=True", "axes=[0, 1]")
        )
    return build("Squeeze", tensor, squeeze_dims=[int(axis) for axis in axes])


@public("nn.moments")
def moments(
    x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: Any = None, keepdims: Any = None
) -> tuple[Any, Any]:
    """Mean and (biased) variance of ``x`` over ``axes``.

    Args:
        x: tensor of any shape.
        axes: dimensions to reduce.
        shift: unused, as in TensorFlow, where the true mean is used in its place.
        name: name of the scope.
        keep_dims: keep the reduced dimensions with size 1.
        keepdims: later name of ``keep_dims``.

    Returns:
        ``(mean, variance)``.
    """
    keep = _keep("moments", keep_dims, keepdims)
    with name_scope(name, "moments", [x, axes] if hasattr(axes, "graph") else [x]):
        x = convert.convert_to_tensor(x, name="x")
        wide = _cast(x, "float32") if _halves(x) else x
        axes = _axis_list(axes)
        mean = build("Mean", wide, axes, keep_dims=True, name="mean")
        squares = build("SquaredDifference", wide, build("StopGradient", mean))
        variance = build("Mean", squares, axes, keep_dims=True, name="variance")
        return _pair(mean, variance, axes, keep, x.dtype.base)


@public("nn.weighted_moments")
def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: Any = None, keepdims: Any = None
) -> tuple[Any, Any]:
    """Mean and variance of ``x`` over ``axes``, in which each element counts as often as its weight says.

    Args:
        x: tensor of any shape.
        axes: dimensions to reduce.
        frequency_weights: weights that broadcast against ``x``.
        name: name of the scope.
        keep_dims: keep the reduced dimensions with size 1.
        keepdims: later name of ``keep_dims``.

    Returns:
        ``(mean, variance)``.
    """
    keep = _keep("weighted_moments", keep_dims, keepdims)
    with name_scope(name, "weighted_moments", [x, frequency_weights]):
        x = convert.convert_to_tensor(x, name="x")
        narrow = x.dtype.base
        if _halves(x):
            x = _cast(x, "float32")
        typed = None if hasattr(frequency_weights, "dtype") else x.dtype.base
        weights = _cast(convert.convert_to_tensor(frequency_weights, typed, name="frequency_weights"), x.dtype.base)
        axes = _axis_list(axes)
        weighted = build("Sum", build("Mul", weights, x), axes, keep_dims=True, name="weighted_input_sum")
        everywhere = build("Add", weights, build("ZerosLike", x))
        total = build("Sum", everywhere, axes, keep_dims=True, name="sum_of_weights")
        mean = build("RealDiv", weighted, total)
        squares = build("Mul", weights, build("SquaredDifference", x, mean))
        spread = build("Sum", squares, axes, keep_dims=True, name="weighted_distsq")
        return _pair(mean, build("RealDiv", spread, total), axes, keep, narrow)


@public("nn.sufficient_statistics")
def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: Any = None,
    name: str | None = None,
    keepdims: Any = None,
) -> tuple[Any, Any, Any, Any]:
    """Count, sum and sum of squares of ``x`` over ``axes``, of ``x - shift`` if a shift is given.

    Args:
        x: floats of any shape.
        axes: dimensions to reduce, Python numbers.
        shift: value near the mean, for accuracy; broadcasts against ``x``.
        keep_dims: keep the reduced dimensions with size 1.
        name: name of the scope.
        keepdims: later name of ``keep_dims``.

    Returns:
        ``(count, mean_ss, variance_ss, shift)``.
    """
    keep = _keep("sufficient_statistics", keep_dims, keepdims)
    axes = sorted(set(_axis_list(axes)))
    with name_scope(name, "sufficient_statistics", [x]):
        x = convert.convert_to_tensor(x, name="x")
        raw = x.shape.raw
        if raw is not None and all(raw[axis] is not None for axis in axes):
            number = 1
            for axis in axes:
                number *= raw[axis]
            count = convert.constant(number, x.dtype.base)
        else:
            sizes = build("GatherV2", _cast(build("Shape", x), x.dtype.base), axes, 0)
            count = build("Prod", sizes, [0], name="count")
        if shift is None:
            first, second = x, build("Square", x)
        else:
            shift = convert.convert_to_tensor(shift, None if hasattr(shift, "dtype") else x.dtype.base, name="shift")
            first, second = build("Sub", x, shift), build("SquaredDifference", x, shift)
        mean_ss = build("Sum", first, axes, keep_dims=keep, name="mean_ss")
        return count, mean_ss, build("Sum", second, axes, keep_dims=keep, name="var_ss"), shift


@public("nn.normalize_moments")
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Mean and variance from what :func:`sufficient_statistics` returns (possibly summed over several tensors)."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss]):
        divisor = build("Reciprocal", counts, name="divisor")
        if shift is None:
            mean = shifted = build("Mul", mean_ss, divisor, name="mean")
        else:
            shifted = build("Mul", mean_ss, divisor, name="shifted_mean")
            mean = build("Add", shifted, shift, name="mean")
        scaled = build("Mul", variance_ss, divisor)
        return mean, build("Sub", scaled, build("Square", shifted), name="variance")


@public("nn.batch_normalization")
def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Any:
    """``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``.

    Args:
        x: floats of any shape.
        mean: mean, broadcasts against ``x``.
        variance: variance, broadcasts against ``x``.
        offset: added at the end; None for nothing.
        scale: factor; None for 1.
        variance_epsilon: keeps the root away from 0.
        name: name of the scope.
    """
    given = [value for value in (x, mean, variance, offset, scale) if value is not None]
    with name_scope(name, "batchnorm", given):
        x = convert.convert_to_tensor(x, name="x")
        factor = build("Rsqrt", build("Add", variance, variance_epsilon, name="add"))
        if scale is not None:
            factor = build("Mul", factor, scale, name="mul")
        product = build("Mul", x, _cast(factor, x.dtype.base), name="mul")
        moved = build("Mul", mean, factor, name="mul")
        moved = build("Neg", moved) if offset is None else build("Sub", offset, moved, name="sub")
        return build("Add", product, _cast(moved, x.dtype.base), name="add")


@public("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Any:
    """:func:`batch_normalization` of NHWC input, with ``gamma`` only if ``scale_after_normalization``.

    ``input``, ``mean`` and ``variance`` are other names of ``t``, ``m`` and ``v``.
    """
    values = []
    for old, new, old_name, new_name in (
        (t, input, "t", "input"),
        (m, mean, "m", "mean"),
        (v, variance, "v", "variance"),
    ):
        if (old is None) == (new is None):
            raise ValueError(
                (f"Cannot specify both '{old_name}' and '{new_name}'\n" if old is not None else "")
                + errors.message(
                    f"{'both' if old is not None else 'neither'} of {old_name}= and {new_name}=",
                    "one of the two arguments, which mean the same",
                    f"{new_name}= alone",
                )
            )
        values.append(new if old is None else old)
    x, means, variances = values
    factor = gamma if scale_after_normalization else None
    return batch_normalization(x, means, variances, beta, factor, variance_epsilon, name)


@public("nn.fused_batch_norm")
def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """Batch normalisation as one op.

    Args:
        x: ``[batch, height, width, channels]``, or as ``data_format`` says.
        scale: ``[channels]``.
        offset: ``[channels]``.
        mean: the mean to use when not training; the running mean with ``exponential_avg_factor != 1``; otherwise None.
        variance: likewise.
        epsilon: keeps the root away from 0; at least 1.001e-5.
        data_format: ``NHWC``, ``NCHW``, ``NDHWC`` or ``NCDHW``.
        is_training: use the statistics of the batch.
        name: name of the op.
        exponential_avg_factor: the new statistics' share in the running ones.

    Returns:
        ``(y, mean, variance)``: the statistics of the batch (unbiased variance) or the running ones.
    """
    needs = not is_training or exponential_avg_factor != 1.0
    if needs and (mean is None or variance is None):
        raise ValueError(
            "Both 'mean' and 'variance' must be a 1D tensor when is_training is False or "
            "exponential_avg_factor != 1.0.\n"
            + errors.message(
                f"is_training={is_training}, exponential_avg_factor={exponential_avg_factor} without mean or variance",
                "the running statistics",
                "mean=moving_mean, variance=moving_variance",
            )
        )
    if not needs and (mean is not None or variance is not None):
        raise ValueError(
            "Both 'mean' and 'variance' must be None when is_training is True and exponential_avg_factor == 1.0.\n"
            + errors.message(
                "statistics for training, which takes those of the batch",
                "no mean and variance while training",
                "is_training=False, or leave mean and variance out",
            )
        )
    x = convert.convert_to_tensor(x, name="input")
    unused = None if needs else convert.constant([], "float32")
    count_more(not needs)  # each of the two has its own
    outputs = build(
        "FusedBatchNormV3",
        x,
        scale,
        offset,
        mean if needs else unused,
        variance if needs else unused,
        epsilon=max(float(epsilon), 1.001e-5),
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=bool(is_training),
        name=name,
    )
    return outputs[0], outputs[1], outputs[2]


@public("nn.l2_normalize", "math.l2_normalize", "linalg.l2_normalize")
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Any:
    """``x / sqrt(max(sum(x ** 2, axis), epsilon))``.

    Args:
        x: floats of any shape.
        axis: dimension or list of dimensions of the sum; all if None. ``dim`` is its old name.
        epsilon: lower bound of the squared norm.
        name: name of the op.
    """
    if axis is not None and dim is not None:
        raise ValueError(
            "Cannot specify both 'axis' and 'dim'\n"
            + errors.message(
                "tf.nn.l2_normalize with axis= and dim=", "one of the two arguments, which mean the same", "axis= alone"
            )
        )
    axis = dim if axis is None else axis
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        over = build("Range", 0, build("Rank", x), 1) if axis is None else axis
        squared = build("Sum", build("Square", x), over, keep_dims=True)
        return build("Mul", x, build("Rsqrt", build("Maximum", squared, epsilon)), name=scope)
