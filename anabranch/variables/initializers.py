"""Initializers: objects called with a shape that return the tensor of initial values.

``initializer(shape, dtype=None, partition_info=None)``. ``dtype`` overrides the one of the object; ``partition_info``
says which part of a larger variable the shape is. Each has ``get_config`` and ``from_config``, so that models can be
written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch import ops
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.variables.partitioned import PartitionInfo


def _function(name: str) -> Callable[..., Any]:
    """The public function ``tf.<name>`` of an op family."""
    if name not in api.names():
        ops.load_all()
    return api.names()[name]


def _floating(dtype: Any) -> dtypes.DType:
    dtype_given = dtypes.as_dtype(dtype)
    if not dtype_given.is_floating:
        raise ValueError(
            f"Expected floating point type, got {dtype_given!r}.\n"
            + errors.message(
                f"dtype {dtype_given.name} for a random initializer",
                "float16, bfloat16, float32 or float64",
                "dtype=tf.float32",
            )
        )
    return dtype_given


def _whole(shape: Sequence[int], partition_info: PartitionInfo | None) -> Sequence[int]:
    return shape if partition_info is None else partition_info.full_shape


class Initializer:
    """Base class: an object whose call returns initial values."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        """A tensor of ``shape`` with initial values."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Arguments from which :meth:`from_config` makes an equal initializer; JSON can hold them."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """The initializer that :meth:`get_config` described."""
        return cls(**config)

    def _config(self, *names: str) -> dict[str, Any]:
        config = {name: getattr(self, name) for name in names}
        config["dtype"] = self.dtype.name  # type: ignore[attr-defined]
        return config


@public("zeros_initializer", "initializers.zeros", "initializers.Zeros")
class Zeros(Initializer):
    """Zeros."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return _function("zeros")(shape, self.dtype if dtype is None else dtype)

    def get_config(self) -> dict[str, Any]:
        return self._config()


@public("ones_initializer", "initializers.ones", "initializers.Ones")
class Ones(Initializer):
    """Ones."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return _function("ones")(shape, self.dtype if dtype is None else dtype)

    def get_config(self) -> dict[str, Any]:
        return self._config()


@public("constant_initializer", "initializers.constant", "initializers.Constant")
class Constant(Initializer):
    """A constant: a number, or values in row-major order, of which the last one fills what is left.

    Args:
        value: number, list or array.
        dtype: element type.
        verify_shape: refuse a value of another shape than the variable's.
    """

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value: {value} "
                "(expected Python scalar, list or tuple of values, or numpy.ndarray).\n"
                + errors.message(
                    f"a {type(value).__name__}",
                    "a number, a list or an array",
                    "tf.get_variable(name, initializer=tensor)",
                )
            )
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self,
        shape: Any,
        dtype: Any = None,
        partition_info: PartitionInfo | None = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        verify = self._verify_shape if verify_shape is None else verify_shape
        return convert.constant(self.value, self.dtype if dtype is None else dtype, shape, verify_shape=verify)

    def get_config(self) -> dict[str, Any]:
        return self._config("value")


@public("random_uniform_initializer", "initializers.random_uniform", "initializers.RandomUniform")
class RandomUniform(Initializer):
    """Uniform numbers: ``minval <= x < maxval`` (1 for floats if None)."""

    def __init__(
        self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        return _function("random_uniform")(shape, self.minval, self.maxval, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return self._config("minval", "maxval", "seed")


@public("random_normal_initializer", "initializers.random_normal", "initializers.RandomNormal")
class RandomNormal(Initializer):
    """Normally distributed numbers."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        return _function("random_normal")(shape, self.mean, self.stddev, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return self._config("mean", "stddev", "seed")


@public("truncated_normal_initializer", "initializers.truncated_normal", "initializers.TruncatedNormal")
class TruncatedNormal(Initializer):
    """Normally distributed numbers; those further than two ``stddev`` from ``mean`` are drawn again."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        return _function("truncated_normal")(shape, self.mean, self.stddev, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return self._config("mean", "stddev", "seed")


@public("uniform_unit_scaling_initializer", "initializers.uniform_unit_scaling", "initializers.UniformUnitScaling")
class UniformUnitScaling(Initializer):
    """Uniform numbers of a range that keeps the scale of a layer's input: ``+-sqrt(3 / fan_in) * factor``.

    ``fan_in`` is the product of all dimensions but the last. From Sussillo and Abbott, *Random walk initialization for
    training very deep feedforward networks* (2014).
    """

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        size = 1.0
        for dimension in _whole(shape, partition_info)[:-1]:
            size *= float(dimension)
        limit = math.sqrt(3 / max(size, 1.0)) * self.factor
        return _function("random_uniform")(shape, -limit, limit, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return self._config("factor", "seed")


_MODES = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS = ("normal", "uniform", "truncated_normal", "untruncated_normal")
# Standard deviation of a standard normal cut off at two of them, by which drawing again narrows the distribution.
_TRUNCATED_STDDEV = 0.87962566103423978


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """Number of inputs and outputs of a unit of a layer with weights of ``shape``; leading dimensions are a window."""
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return shape[0], shape[0]
    window = 1.0
    for dimension in shape[:-2]:
        window *= dimension
    return shape[-2] * window, shape[-1] * window


@public("variance_scaling_initializer", "initializers.variance_scaling", "initializers.VarianceScaling")
class VarianceScaling(Initializer):
    """Random numbers of variance ``scale / n``, where n is the number of inputs, outputs, or their mean, of a unit.

    Args:
        scale: positive factor.
        mode: ``fan_in``, ``fan_out`` or ``fan_avg``.
        distribution: ``truncated_normal`` (or ``normal``, its old name), ``untruncated_normal`` or ``uniform``.
        seed: seed of the op.
        dtype: element type.
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if scale <= 0.0:
            raise ValueError(
                "`scale` must be positive float.\n" + errors.message(f"scale={scale}", "a number above 0", "scale=1.0")
            )
        if mode not in _MODES:
            raise ValueError(
                f"Invalid `mode` argument: {mode}\n"
                + errors.message(f"mode={mode!r}", f"one of {_MODES}", "mode='fan_in'")
            )
        distribution = distribution.lower()
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(
                f"Invalid `distribution` argument: {distribution}\n"
                + errors.message(
                    f"distribution={distribution!r}", f"one of {_DISTRIBUTIONS}", "distribution='truncated_normal'"
                )
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        fan_in, fan_out = _fans(_whole(shape, partition_info))
        units = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, units)
        if self.distribution in ("normal", "truncated_normal"):
            stddev = math.sqrt(variance) / _TRUNCATED_STDDEV
            return _function("truncated_normal")(shape, 0.0, stddev, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return _function("random_normal")(shape, 0.0, math.sqrt(variance), dtype, seed=self.seed)
        limit = math.sqrt(3.0 * variance)
        return _function("random_uniform")(shape, -limit, limit, dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return self._config("scale", "mode", "distribution", "seed")


@public("glorot_uniform_initializer", "initializers.glorot_uniform", "initializers.GlorotUniform")
class GlorotUniform(VarianceScaling):
    """Uniform numbers of variance 2 / (inputs + outputs), after Glorot and Bengio (2010); the default for floats."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        return self._config("seed")


@public("glorot_normal_initializer", "initializers.glorot_normal", "initializers.GlorotNormal")
class GlorotNormal(VarianceScaling):
    """Truncated normal numbers of variance 2 / (inputs + outputs), after Glorot and Bengio (2010)."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        return self._config("seed")


@public("initializers.lecun_normal")
def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal numbers of variance 1 / inputs, after LeCun and others (1998)."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


@public("initializers.lecun_uniform")
def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform numbers of variance 1 / inputs, after LeCun and others (1998)."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


@public("initializers.he_normal")
def he_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal numbers of variance 2 / inputs, after He and others (2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


@public("initializers.he_uniform")
def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform numbers of variance 2 / inputs, after He and others (2015)."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


@public("orthogonal_initializer", "initializers.orthogonal", "initializers.Orthogonal")
class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns (whichever are fewer), times ``gain``.

    Dimensions but the last are taken together as rows. The matrix is the Q of the QR decomposition of a normal one,
    with
    signs that make it uniformly distributed (Saxe and others, 2013).
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        if len(shape) < 2:
            raise ValueError(
                "The tensor to initialize must be at least two-dimensional\n"
                + errors.message(f"shape {list(shape)}", "two dimensions or more", "another initializer for vectors")
            )
        rows, columns = int(np.prod([int(size) for size in shape[:-1]])), int(shape[-1])
        wide = rows < columns
        normal = _function("random_normal")((columns, rows) if wide else (rows, columns), dtype=dtype, seed=self.seed)
        q, r = build("Qr", normal, full_matrices=False)
        q = q * build("Sign", build("DiagPart", r))
        if wide:
            q = build("Transpose", q, [1, 0])
        return self.gain * build("Reshape", q, list(shape))

    def get_config(self) -> dict[str, Any]:
        return self._config("gain", "seed")


@public("initializers.identity")
class Identity(Initializer):
    """The identity matrix times ``gain``; matrices that are not square get zeros beside it."""

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = dtypes.as_dtype(self.dtype if dtype is None else dtype)
        whole = _whole(shape, partition_info)
        if len(whole) != 2:
            raise ValueError(
                "Identity matrix initializer can only be used for 2D matrices.\n"
                + errors.message(f"shape {list(whole)}", "two dimensions", "another initializer")
            )
        ones = _function("ones")([min(whole)], dtype)
        tensor = build("MatrixDiag", ones)
        if whole[0] != whole[1]:
            tensor = build("MatrixSetDiag", _function("zeros")(list(whole), dtype), ones)
        if partition_info is not None:
            tensor = build("Slice", tensor, partition_info.var_offset, list(shape))
        return self.gain * tensor

    def get_config(self) -> dict[str, Any]:
        return self._config("gain")
