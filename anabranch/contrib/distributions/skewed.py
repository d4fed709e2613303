"""Distributions that a bijector makes of simple ones: Kumaraswamy's, sinh-arcsinh, vectors of skewed numbers.

``loc + scale @ W`` has independent elements ``W`` of one family; what is asked of it (mean, covariance) follows from
the mean and variance of an element.
"""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.distributions import scalar_bijectors
from anabranch.contrib.distributions.bijectors import AffineScalar, Chain
from anabranch.contrib.distributions.matrix_bijectors import Affine, AffineLinearOperator
from anabranch.contrib.distributions.normals import MultivariateNormalTriL
from anabranch.contrib.distributions.transformed import TransformedDistribution
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import shapes
from anabranch.distributions.base import Distribution


def _joint_shape(*tensors: Any) -> Any:
    """The shape of tensors broadcast against each other, as a list or a tensor."""
    known = tensors[0].shape
    for tensor in tensors[1:]:
        known = tf.broadcast_static_shape(known, tensor.shape)
    if known.is_fully_defined():
        return known.as_list()
    shape = tf.shape(tensors[0])
    for tensor in tensors[1:]:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(tensor))
    return shape


def _harmonic(x: Any) -> Any:
    """The harmonic number of a real argument."""
    one = tf.ones([], x.dtype)
    return tf.digamma(x + one) - tf.digamma(one)


@public("contrib.distributions.Kumaraswamy")
class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy's distribution of numbers between 0 and 1, of ``1 - (1 - x ** a) ** b``.

    Args:
        concentration1: ``a``, above 0.
        concentration0: ``b``, above 0.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a mode that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Kumaraswamy",
    ) -> None:
        parameters = dict(locals())
        a = tf.convert_to_tensor(concentration1, name="concentration1")
        b = tf.convert_to_tensor(concentration0, a.dtype.base_dtype, name="concentration0")
        zero = tf.zeros([], a.dtype.base_dtype)
        super().__init__(
            tf.distributions.Uniform(zero, zero + 1, allow_nan_stats=allow_nan_stats),
            scalar_bijectors.Kumaraswamy(a, b, validate_args),
            batch_shape=_joint_shape(a, b),
            validate_args=validate_args,
            name=name,
        )
        self._parameters = {key: value for key, value in parameters.items() if key not in ("self", "__class__")}
        self._reparameterization_type = tf.distributions.FULLY_REPARAMETERIZED
        self._a, self._b = a, b

    @property
    def concentration1(self) -> Any:
        """``a``."""
        return self._a

    @property
    def concentration0(self) -> Any:
        """``b``."""
        return self._b

    def _entropy(self) -> Any:
        a, b = self._a, self._b
        return (1 - 1.0 / a) + (1 - 1.0 / b) * _harmonic(b) + tf.log(a) + tf.log(b)

    def _moment(self, order: int) -> Any:
        whole = tf.ones_like(self._a + self._b)
        a, b = whole * self._a, whole * self._b
        return tf.exp(tf.log(b) + tf.lbeta(tf.stack([1 + order / a, b], -1)))

    def _mean(self) -> Any:
        return self._moment(1)

    def _variance(self) -> Any:
        return self._moment(2) - tf.square(self._moment(1))

    def _mode(self) -> Any:
        a, b = self._a, self._b
        mode = ((a - 1) / (a * b - 1)) ** (1.0 / a)
        return self._undefined(
            (a > 1.0) & (b > 1.0), mode, "Mode undefined for concentration1 <= 1., or concentration0 <= 1."
        )


@public("contrib.distributions.SinhArcsinh")
class SinhArcsinh(TransformedDistribution):
    """``loc + scale * sinh((asinh(Z) + skewness) * tailweight)``, scaled so that it is a normal one without the two.

    Args:
        loc: location.
        scale: scale, above 0.
        skewness: how far it leans; 0 if None.
        tailweight: how heavy its tails are; 1 if None.
        distribution: of ``Z``; the standard normal one if None.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        loc: Any,
        scale: Any,
        skewness: Any = None,
        tailweight: Any = None,
        distribution: Distribution | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "SinhArcsinh",
    ) -> None:
        self._loc = tf.convert_to_tensor(loc, name="loc")
        dtype = self._loc.dtype.base_dtype
        self._scale = tf.convert_to_tensor(scale, dtype, name="scale")
        self._skewness, self._tailweight, inner, factor = _bent(skewness, tailweight, dtype)
        super().__init__(
            _standard_normal(dtype, allow_nan_stats) if distribution is None else distribution,
            Chain([AffineScalar(self._loc, self._scale * factor, validate_args=validate_args), inner]),
            batch_shape=_joint_shape(self._loc, self._scale, self._tailweight, self._skewness),
            validate_args=validate_args,
            name=name,
        )

    @property
    def loc(self) -> Any:
        """Location."""
        return self._loc

    @property
    def scale(self) -> Any:
        """Scale."""
        return self._scale

    @property
    def tailweight(self) -> Any:
        """How heavy its tails are."""
        return self._tailweight

    @property
    def skewness(self) -> Any:
        """How far it leans."""
        return self._skewness


def _bent(skewness: Any, tailweight: Any, dtype: Any) -> Any:
    """Skewness and weight of the tails, their bijector, and the factor that keeps two standard deviations in place."""
    tail = tf.convert_to_tensor(1.0 if tailweight is None else tailweight, dtype, name="tailweight")
    lean = tf.convert_to_tensor(0.0 if skewness is None else skewness, dtype, name="skewness")
    two = tf.convert_to_tensor(2.0, dtype)
    upright = scalar_bijectors.SinhArcsinh(skewness=tf.zeros([], dtype), tailweight=tail)
    return lean, tail, scalar_bijectors.SinhArcsinh(skewness=lean, tailweight=tail), two / upright.forward(two)


def _standard_normal(dtype: Any, allow_nan_stats: bool) -> Distribution:
    zero = tf.zeros([], dtype)
    normal: Distribution = tf.distributions.Normal(zero, zero + 1, allow_nan_stats=allow_nan_stats)
    return normal


def _diagonal_scale(loc: Any, scale_diag: Any, scale_identity_multiplier: Any) -> Any:
    """The operator with a diagonal, a multiple of the identity, their sum, or the identity of the size of ``loc``."""
    loc = None if loc is None else tf.convert_to_tensor(loc, name="loc")
    dtype = None if loc is None else loc.dtype.base_dtype
    multiplier = scale_identity_multiplier
    if multiplier is not None:
        multiplier = tf.convert_to_tensor(multiplier, dtype, name="scale_identity_multiplier")
        dtype = multiplier.dtype.base_dtype
    if scale_diag is not None:
        diagonal = tf.convert_to_tensor(scale_diag, dtype, name="scale_diag")
        diagonal = diagonal if multiplier is None else diagonal + multiplier[..., tf.newaxis]
        return tf.linalg.LinearOperatorDiag(diagonal, is_non_singular=True)
    if loc is None or loc.shape[-1].value is None:
        raise ValueError(
            "Cannot infer `event_shape` unless `loc` or `scale_diag` is specified.\n"
            + errors.message(f"loc={loc}, scale_diag=None", "one of known size", "loc=tf.zeros([n])")
        )
    size = loc.shape[-1].value
    if multiplier is None:
        return tf.linalg.LinearOperatorIdentity(size, dtype=dtype)
    return tf.linalg.LinearOperatorScaledIdentity(size, multiplier, is_non_singular=True)


def _vector_shapes(loc: Any, scale: Any) -> tuple[Any, Any]:
    """The shapes of the batch and of an outcome of ``loc + scale @ W``."""
    event = scale.range_dimension.value
    if event is None:
        event_shape = tf.reshape(scale.range_dimension_tensor(), [1])
    else:
        event_shape = [event]
    batch = scale.batch_shape
    if loc is None or loc.shape.ndims == 1:
        return (batch.as_list() if batch.is_fully_defined() else scale.batch_shape_tensor()), event_shape
    joint = shapes.broadcast(batch._raw, loc.shape[:-1]._raw)
    if joint is not None and None not in joint:
        return list(joint), event_shape
    return tf.broadcast_dynamic_shape(scale.batch_shape_tensor(), tf.shape(loc)[:-1]), event_shape


class _AffineVector(TransformedDistribution):
    """``loc + scale @ W`` of independent elements ``W`` with a mean, a mode of 0, and a variance."""

    _ELEMENT_MEAN, _ELEMENT_VARIANCE = 0.0, 1.0

    def __init__(
        self, element: Distribution, loc: Any, scale: Any, validate_args: bool, name: str, parameters: dict[str, Any]
    ) -> None:
        if scale is None:
            raise ValueError(
                "Missing required `scale` parameter.\n"
                + errors.message("scale=None", "a linear operator", "tf.linalg.LinearOperatorDiag([1.0, 2.0])")
            )
        loc = None if loc is None else tf.convert_to_tensor(loc, scale.dtype, name="loc")
        batch_shape, event_shape = _vector_shapes(loc, scale)
        super().__init__(
            element,
            AffineLinearOperator(loc, scale, validate_args),
            batch_shape=batch_shape,
            event_shape=event_shape,
            validate_args=validate_args,
            name=name,
        )
        self._loc, self._scale = loc, scale
        self._parameters = {key: value for key, value in parameters.items() if key not in ("self", "__class__")}

    @property
    def loc(self) -> Any:
        """What is added, or None."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The linear operator."""
        return self._scale

    def _at(self, element: float) -> Any:
        """The outcome whose elements ``W`` are all one number."""
        shape = tf.concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0)
        return self._bijector.forward(tf.fill(shape, tf.constant(element, self._dtype)))

    def _mean(self) -> Any:
        return self._at(self._ELEMENT_MEAN)

    def _mode(self) -> Any:
        return self._at(0.0)

    def _covariance(self) -> Any:
        dense = self._scale.to_dense()
        return self._ELEMENT_VARIANCE * self._scale.matmul(dense, adjoint_arg=True)

    def _variance(self) -> Any:
        return tf.matrix_diag_part(self._covariance())

    def _stddev(self) -> Any:
        return tf.sqrt(self._variance())


@public("contrib.distributions.VectorExponentialDiag")
class VectorExponentialDiag(_AffineVector):
    """``loc + scale @ W`` of independent exponential ``W`` of rate 1; ``scale`` is a diagonal.

    Args:
        loc: ``[..., n]``; zeros if None.
        scale_diag: ``[..., n]``; ones if None, and no multiplier is given.
        scale_identity_multiplier: added to the diagonal.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    _ELEMENT_MEAN = 1.0

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "VectorExponentialDiag",
    ) -> None:
        parameters = dict(locals())
        scale = _diagonal_scale(loc, scale_diag, scale_identity_multiplier)
        element = tf.distributions.Exponential(tf.ones([], scale.dtype), allow_nan_stats=allow_nan_stats)
        super().__init__(element, loc, scale, validate_args, name, parameters)


@public("contrib.distributions.VectorLaplaceDiag")
class VectorLaplaceDiag(_AffineVector):
    """``loc + scale @ W`` of independent ``W`` with Laplace's distribution; ``scale`` is a diagonal.

    Args:
        loc: ``[..., n]``; zeros if None.
        scale_diag: ``[..., n]``; ones if None, and no multiplier is given.
        scale_identity_multiplier: added to the diagonal.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    _ELEMENT_VARIANCE = 2.0

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "VectorLaplaceDiag",
    ) -> None:
        parameters = dict(locals())
        scale = _diagonal_scale(loc, scale_diag, scale_identity_multiplier)
        zero = tf.zeros([], scale.dtype)
        element = tf.distributions.Laplace(zero, zero + 1, allow_nan_stats=allow_nan_stats)
        super().__init__(element, loc, scale, validate_args, name, parameters)


@public("contrib.distributions.VectorSinhArcsinhDiag")
class VectorSinhArcsinhDiag(TransformedDistribution):
    """Vectors of `SinhArcsinh` elements.

    Args:
        loc: ``[..., n]``; zeros if None.
        scale_diag: ``[..., n]``; ones if None, and no multiplier is given.
        scale_identity_multiplier: added to the diagonal.
        skewness: how far elements lean; 0 if None.
        tailweight: how heavy their tails are; 1 if None.
        distribution: of the elements before; the standard normal one if None.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        skewness: Any = None,
        tailweight: Any = None,
        distribution: Distribution | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalLinearOperator",
    ) -> None:
        self._scale = _diagonal_scale(loc, scale_diag, scale_identity_multiplier)
        dtype = self._scale.dtype
        self._loc = None if loc is None else tf.convert_to_tensor(loc, dtype, name="loc")
        batch_shape, event_shape = _vector_shapes(self._loc, self._scale)
        self._skewness, self._tailweight, inner, factor = _bent(skewness, tailweight, dtype)
        outer = Affine(shift=self._loc, scale_diag=self._scale.diag_part() * factor, validate_args=validate_args)
        super().__init__(
            _standard_normal(dtype, allow_nan_stats) if distribution is None else distribution,
            Chain([outer, inner]),
            batch_shape=batch_shape,
            event_shape=event_shape,
            validate_args=validate_args,
            name=name,
        )

    @property
    def loc(self) -> Any:
        """Location, or None."""
        return self._loc

    @property
    def scale(self) -> Any:
        """A linear operator."""
        return self._scale

    @property
    def tailweight(self) -> Any:
        """How heavy the tails are."""
        return self._tailweight

    @property
    def skewness(self) -> Any:
        """How far elements lean."""
        return self._skewness


@public("contrib.distributions.MultivariateNormalDiagPlusLowRank")
class MultivariateNormalDiagPlusLowRank(_AffineVector):
    """Normal vectors whose scale is a diagonal and a matrix of low rank: ``diag + V @ diag(d) @ V.T``.

    Args:
        loc: ``[..., n]``; zeros if None.
        scale_diag: ``[..., n]``, above 0.
        scale_identity_multiplier: added to the diagonal.
        scale_perturb_factor: ``V`` ``[..., n, k]``.
        scale_perturb_diag: ``d`` ``[..., k]``; ones if None.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        scale_perturb_factor: Any = None,
        scale_perturb_diag: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiagPlusLowRank",
    ) -> None:
        parameters = dict(locals())
        scale = _diagonal_scale(loc, scale_diag, scale_identity_multiplier)
        if scale_perturb_factor is not None or scale_perturb_diag is not None:
            weights = scale_perturb_diag
            scale = tf.linalg.LinearOperatorLowRankUpdate(
                scale,
                u=tf.convert_to_tensor(scale_perturb_factor, scale.dtype),
                diag_update=None if weights is None else tf.convert_to_tensor(weights, scale.dtype),
                is_diag_update_positive=weights is None,
                is_non_singular=True,
                is_self_adjoint=True,
                is_positive_definite=True,
                is_square=True,
            )
        super().__init__(_standard_normal(scale.dtype, allow_nan_stats), loc, scale, validate_args, name, parameters)


@tf.distributions.RegisterKL(MultivariateNormalDiagPlusLowRank, MultivariateNormalTriL)
@tf.distributions.RegisterKL(MultivariateNormalTriL, MultivariateNormalDiagPlusLowRank)
@tf.distributions.RegisterKL(MultivariateNormalDiagPlusLowRank, MultivariateNormalDiagPlusLowRank)
def _between(a: Any, b: Any, name: str | None = None) -> Any:
    """The divergence of two normal vectors, as of triangles of their covariances."""
    with tf.name_scope(name, "kl_mvn"):
        return tf.distributions.kl_divergence(_triangular(a), _triangular(b))


def _triangular(normal: Any) -> Any:
    if isinstance(normal, MultivariateNormalTriL):
        return normal
    return MultivariateNormalTriL(normal.mean(), tf.cholesky(normal.covariance()))
