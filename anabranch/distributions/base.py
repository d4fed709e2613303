"""What distributions share: shapes, sampling to a shape, and the public methods, which call those of a class.

Policy. A class gives ``_log_prob``, ``_sample_n`` and what else it knows under a name with an underscore; what it does
not give raises NotImplementedError that says so. Public methods open a name scope, convert what they are given and call
them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.graph.random_seed import OperationCount, count_more, counted_as
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape


@public("distributions.ReparameterizationType", "contrib.distributions.ReparameterizationType")
class ReparameterizationType:
    """Whether gradients flow through samples to parameters."""

    def __init__(self, rep_type: str) -> None:
        self._name = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._name}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")
for _space in ("distributions", "contrib.distributions"):
    publish_as(f"{_space}.FULLY_REPARAMETERIZED", FULLY_REPARAMETERIZED)
    publish_as(f"{_space}.NOT_REPARAMETERIZED", NOT_REPARAMETERIZED)


# ------------------------------------------------------------------------------------------------------------- helpers
def new_seed(seed: int | None, salt: str) -> int | None:
    """A seed for a further draw that depends on ``seed``; None stays None."""
    if seed is None:
        return None
    digest = hashlib.md5((str(seed) + salt).encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def vector(*parts: Any) -> Any:
    """Shapes, given as lists or int32 tensors, joined to one."""
    known: list[int] = []
    for part in parts:
        dims = np.array(part, np.int32) if isinstance(part, (list, tuple)) else partial_value(part)
        if not isinstance(dims, np.ndarray):
            tensors = [convert_to_tensor(item, dtypes.int32) for item in parts]
            return tensors[0] if len(tensors) == 1 else build("ConcatV2", tensors, 0)
        known += dims.ravel().tolist()
    return np.array(known, np.int32)


def drawn_shape(n: Any, *parameters: Tensor) -> Any:
    """Shape of ``n`` draws for a batch of parameters."""
    counted = OperationCount()
    raw, batch = broadcast_shape(*parameters)
    shape = vector([n] if isinstance(n, int) else build("ExpandDims", n, 0), batch)
    counted.set(3 if raw is not None and None not in raw else 2 + 2 * len(parameters))
    return shape


def dynamic_shape(x: Tensor) -> Any:
    """The shape of a tensor: a list of ints if it is known, an int32 tensor otherwise."""
    raw = x._shape
    return list(raw) if raw is not None and None not in raw else build("Shape", x)


def broadcast_shape(*tensors: Tensor) -> tuple[shapes.RawShape, Any]:
    """The shape of tensors broadcast against each other: what is known of it, and as a value."""
    raw: shapes.RawShape = ()
    for tensor in tensors:
        raw = shapes.broadcast(raw, tensor._shape)
    if raw is not None and None not in raw:
        return raw, list(raw)
    dynamic = convert_to_tensor([], dtypes.int32)
    for tensor in tensors:
        dynamic = build("BroadcastArgs", dynamic, build("Shape", tensor))
    return raw, dynamic


def nan(like_tensor: Tensor) -> Any:
    """Not a number, of a tensor's dtype."""
    return np.array(np.nan, like_tensor.dtype.base.np)


def number(value: float, like_tensor: Tensor) -> Tensor:
    """A scalar of a tensor's dtype."""
    return convert_to_tensor(value, like_tensor.dtype.base)


def floats(name: str, dtype: Any = None, **values: Any) -> dict[str, Any]:
    """Parameters as tensors of one floating dtype; None stays out."""
    given = {key: value for key, value in values.items() if value is not None}
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if wanted is None:
        typed = [value.dtype for value in given.values() if isinstance(getattr(value, "dtype", None), dtypes.DType)]
        wanted = typed[0].base if typed else None
    tensors = {}
    for key, value in given.items():
        own = isinstance(getattr(value, "dtype", None), dtypes.DType) and dtype is None
        tensors[key] = convert_to_tensor(value, None if own else wanted, name=key)
    kinds = {tensor.dtype.base for tensor in tensors.values()}
    if len(kinds) > 1 or not all(kind.is_floating for kind in kinds):
        names = {key: tensor.dtype.base.name for key, tensor in tensors.items()}
        raise TypeError(
            errors.message(f"parameters of {name} of dtypes {names}", "one floating dtype", "tf.cast(x, tf.float32)")
        )
    return tensors


def assert_that(condition: Tensor, *data: Any) -> Any:
    """An assertion that a tensor of booleans holds."""
    return build("Assert", build("All", condition, _all(condition)), list(data))


def _all(x: Tensor) -> Any:
    return build("Range", 0, build("Rank", x), 1)


# ---------------------------------------------------------------------------------------------------------------- base
@public("distributions.Distribution", "contrib.distributions.Distribution")
class Distribution:
    """A distribution; the base of the others, and of those that a program adds."""

    def __init__(
        self,
        dtype: Any,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: dict[str, Any] | None = None,
        graph_parents: list[Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._dtype = dtypes.as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._validate_args, self._allow_nan_stats = validate_args, allow_nan_stats
        self._parameters = {
            key: value for key, value in (parameters or {}).items() if key != "self" and key[:2] != "__"
        }
        self._graph_parents = list(graph_parents or [])
        self._name = name or type(self).__name__

    _shaped: ClassVar[tuple[str, ...]] = ()
    """Parameters that have the shape of a sample of one batch, where that is so of all of them."""

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> dict[str, Any]:
        """Shapes of the parameters, as tensors, for which ``sample()`` has a shape.

        Raises:
            NotImplementedError: the class does not say.
        """
        if not cls._shaped:
            raise NotImplementedError(
                "_param_shapes not implemented\n"
                + errors.message(
                    f"shapes of the parameters of {cls.__name__}", "a class that says them", "tf.distributions.Normal"
                )
            )
        with name_scope(name, None, [sample_shape]):
            shape = convert_to_tensor(
                sample_shape.as_list() if isinstance(sample_shape, TensorShape) else sample_shape, dtypes.int32
            )
            return {one: shape for one in cls._shaped}

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, TensorShape]:
        """Shapes of the parameters for which ``sample()`` has a shape, which must be known.

        Raises:
            ValueError: ``sample_shape`` is a tensor whose value is not known.
        """
        if isinstance(sample_shape, Tensor):
            known = constant_value(sample_shape)
            sample_shape = None if known is None else known.tolist()
        shape = TensorShape(sample_shape)
        if not shape.is_fully_defined():
            raise ValueError(
                "TensorShape sample_shape must be fully defined\n"
                + errors.message(f"sample_shape={shape}", "a shape that is known", "sample_shape=[2, 3]")
            )
        return {one: shape for one in cls.param_shapes([])}

    # -- what it is -------------------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """Name of the scope of its ops."""
        return self._name

    @property
    def dtype(self) -> dtypes.DType:
        """Of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that it was made of."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """Whether gradients flow through samples."""
        return self._reparameterization_type

    @property
    def validate_args(self) -> bool:
        """Whether parameters and values are checked when they are used."""
        return self._validate_args

    @property
    def allow_nan_stats(self) -> bool:
        """Whether a statistic that is not defined is NaN and not an error."""
        return self._allow_nan_stats

    @property
    def batch_shape(self) -> TensorShape:
        """What is known of the shape of the batch."""
        return TensorShape(self._batch()[0])

    @property
    def event_shape(self) -> TensorShape:
        """What is known of the shape of an outcome."""
        return TensorShape(self._event()[0])

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape of the batch."""
        with self._scope(name):
            return convert_to_tensor(self._batch()[1], dtypes.int32)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of an outcome."""
        with self._scope(name):
            return convert_to_tensor(self._event()[1], dtypes.int32)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Whether outcomes are scalars."""
        with self._scope(name):
            return build("Equal", build("Size", self.event_shape_tensor()), 0)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Whether it is one distribution."""
        with self._scope(name):
            return build("Equal", build("Size", self.batch_shape_tensor()), 0)

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """Another one with some parameters replaced."""
        return type(self)(**{**self._parameters, **override_parameters_kwargs})

    def __repr__(self) -> str:
        return (
            f"<tf.distributions.{type(self).__name__} '{self._name}' batch_shape={self.batch_shape} "
            f"event_shape={self.event_shape} dtype={self._dtype.name}>"
        )

    # -- for classes ------------------------------------------------------------------------------------------------
    def _batch(self) -> tuple[shapes.RawShape, Any]:
        """What is known of the batch shape, and the shape as a value."""
        return self._declared("batch_shape")

    def _event(self) -> tuple[shapes.RawShape, Any]:
        own = hasattr(self, "_event_shape") or hasattr(self, "_event_shape_tensor")
        return self._declared("event_shape") if own else ((), [])

    def _declared(self, what: str) -> tuple[shapes.RawShape, Any]:
        """A shape as a class of a program's own says it: by ``_batch_shape()`` and ``_batch_shape_tensor()``."""
        known, dynamic = getattr(self, f"_{what}", None), getattr(self, f"_{what}_tensor", None)
        if known is None and dynamic is None:
            raise self._missing(what)
        raw = None if known is None else TensorShape(known())._raw
        if raw is not None and None not in raw:
            return raw, list(raw)
        if dynamic is None:
            raise self._missing(f"{what}_tensor")
        return raw, convert_to_tensor(dynamic(), dtypes.int32)

    def _sample_n(self, n: Any, seed: int | None) -> Tensor:
        raise self._missing("sample")

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            errors.message(
                f"{what} of {type(self).__name__}", "a distribution that has it", "compute it from samples or log_prob"
            )
        )

    @contextlib.contextmanager
    def _scope(self, name: str, *values: Any) -> Iterator[None]:
        with name_scope(self._name + "/"), name_scope(name, values=list(values)):
            yield

    def _call(self, name: str, *values: Any) -> Any:
        with self._scope(name, *values):
            given = [convert_to_tensor(value, preferred_dtype=self._value_dtype(value)) for value in values]
            method = getattr(self, f"_{name}", None)
            if method is None:
                raise self._missing(name)
            return method(*given)

    def _value_dtype(self, value: Any) -> Any:
        """The dtype that values are converted to if they can be; discrete distributions take floats and ints."""
        return None if isinstance(getattr(value, "dtype", None), dtypes.DType) else self._dtype

    def _undefined(self, defined: Tensor, value: Tensor, text: str) -> Tensor:
        """``value`` where it is ``defined``; elsewhere NaN, or a failed step."""
        if self._allow_nan_stats:
            return build("SelectV2", defined, value, nan(value))
        with control_dependencies([assert_that(defined, text, "Condition x < y did not hold element-wise")]):
            return build("Identity", value)

    # -- samples ----------------------------------------------------------------------------------------------------
    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Tensor:
        """Samples ``[*sample_shape, *batch_shape, *event_shape]``."""
        with self._scope(name, sample_shape):
            wanted = convert_to_tensor(sample_shape, dtypes.int32, name="sample_shape")
            count_more(wanted.shape.ndims == 0)  # as a vector
            known = partial_value(wanted)
            if isinstance(known, np.ndarray):
                lead: Any = [int(item) for item in known.ravel()]
                count: Any = int(np.prod(lead, dtype=np.int64))
            else:
                lead = build("Reshape", wanted, [-1])
                count = build("Prod", lead, [0])
            if isinstance(count, int) and not type(self)._sample_n.__module__.startswith("anabranch."):
                count = np.int32(count)  # as in TensorFlow: a program's class may compare it, or ask for its dtype
            drawn = self._unmapped_sample_n(count, seed)
            with counted_as(8, captures=False):
                samples = build("Reshape", drawn, vector(lead, _tail(drawn)))
            samples = self._mapped(samples)
            with counted_as(0, captures=False):
                batch, event = self._batch()[0], self._event()[0]
            if isinstance(lead, list) and batch is not None and event is not None:
                samples.set_shape([*lead, *batch, *event])
            return samples

    def _unmapped_sample_n(self, n: Any, seed: int | None) -> Any:
        """What a sample is a function of, where a distribution is given by one: it is applied last."""
        return self._sample_n(n, seed)

    def _mapped(self, drawn: Tensor) -> Any:
        """That function of what was drawn, so that the sample is the very tensor that it gave."""
        return drawn

    # -- probabilities ----------------------------------------------------------------------------------------------
    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """The logarithm of the density or probability."""
        if hasattr(self, "_log_prob"):
            return self._call("log_prob", value)
        with self._scope(name):
            return build("Log", self._call("prob", value))

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """The density or probability."""
        if hasattr(self, "_prob"):
            return self._call("prob", value)
        with self._scope(name):
            return build("Exp", self._call("log_prob", value))

    def cdf(self, value: Any, name: str = "cdf") -> Tensor:
        """The probability of at most ``value``."""
        if hasattr(self, "_cdf") or not hasattr(self, "_log_cdf"):
            return self._call("cdf", value)
        with self._scope(name):
            return build("Exp", self._call("log_cdf", value))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Tensor:
        """The logarithm of :meth:`cdf`."""
        if hasattr(self, "_log_cdf"):
            return self._call("log_cdf", value)
        with self._scope(name):
            return build("Log", self._call("cdf", value))

    def survival_function(self, value: Any, name: str = "survival_function") -> Tensor:
        """The probability of more than ``value``."""
        if hasattr(self, "_survival_function"):
            return self._call("survival_function", value)
        with self._scope(name):
            below = self.cdf(value)
            return build("Sub", number(1, below), below)

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Tensor:
        """The logarithm of :meth:`survival_function`."""
        if hasattr(self, "_log_survival_function"):
            return self._call("log_survival_function", value)
        with self._scope(name):
            return build("Log1p", build("Neg", self.cdf(value)))

    def quantile(self, value: Any, name: str = "quantile") -> Tensor:
        """The value below which the probability is ``value``."""
        return self._call("quantile", value)

    # -- statistics -------------------------------------------------------------------------------------------------
    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy in nats."""
        return self._call("entropy")

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        return self._call("mean")

    def mode(self, name: str = "mode") -> Tensor:
        """The most probable outcome."""
        return self._call("mode")

    def variance(self, name: str = "variance") -> Tensor:
        """The variance of each element."""
        if hasattr(self, "_variance") or not hasattr(self, "_stddev"):
            return self._call("variance")
        with self._scope(name):
            return build("Square", self._call("stddev"))

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation of each element."""
        if hasattr(self, "_stddev"):
            return self._call("stddev")
        with self._scope(name):
            return build("Sqrt", self._call("variance"))

    def covariance(self, name: str = "covariance") -> Tensor:
        """The covariance ``[*batch_shape, n, n]`` of outcomes that are vectors."""
        return self._call("covariance")

    def cross_entropy(self, other: Any, name: str = "cross_entropy") -> Tensor:
        """The cross entropy in nats."""
        with self._scope(name):
            entropy: Any = self.entropy()
            return entropy + self.kl_divergence(other)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Tensor:
        """The divergence of Kullback and Leibler to another distribution, in nats."""
        with self._scope(name):
            return kl_divergence(self, other, allow_nan_stats=self._allow_nan_stats)


def _tail(drawn: Tensor) -> Any:
    dims = dynamic_shape(drawn)
    return dims[1:]


# --------------------------------------------------------------------------------------------------------- divergences
_divergences: dict[tuple[type, type], Callable[..., Tensor]] = {}


@public("distributions.RegisterKL", "contrib.distributions.RegisterKL")
class RegisterKL:
    """Decorator that registers ``function(a, b, name=None)`` as the divergence of two classes."""

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = dist_cls_a, dist_cls_b

    def __call__(self, kl_fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _divergences:
            names = " and ".join(item.__name__ for item in self._key)
            raise ValueError(
                f"KL({self._key[0].__name__} || {self._key[1].__name__}) has already been registered to: "
                f"{_divergences[self._key]}\n"
                + errors.message(f"a second divergence of {names}", "one for each pair of classes", "a subclass of one")
            )
        _divergences[self._key] = kl_fn
        return kl_fn


def divergence_of(first: type, second: type) -> Callable[..., Any] | None:
    """The function that is registered for two classes or, nearest first, for classes that they derive from."""
    found = [
        (number + other, number, _divergences[one, two])
        for number, one in enumerate(first.__mro__)
        for other, two in enumerate(second.__mro__)
        if (one, two) in _divergences
    ]
    return min(found, key=lambda item: item[:2])[2] if found else None


@public("distributions.kl_divergence", "contrib.distributions.kl_divergence")
def kl_divergence(
    distribution_a: Distribution, distribution_b: Distribution, allow_nan_stats: bool = True, name: str | None = None
) -> Tensor:
    """The divergence of Kullback and Leibler: the mean under ``a`` of ``log(a / b)``, in nats, ``[*batch_shape]``.

    Raises:
        NotImplementedError: there is none for these classes; ``RegisterKL`` adds one.
    """
    kinds = type(distribution_a), type(distribution_b)
    divergence = divergence_of(*kinds)
    if divergence is None:
        raise NotImplementedError(
            f"No KL(distribution_a || distribution_b) registered for {kinds[0].__name__} and {kinds[1].__name__}\n"
            + errors.message(
                f"{kinds[0].__name__} and {kinds[1].__name__}",
                "two of the same family",
                "tf.distributions.RegisterKL, or the mean of log_prob differences over samples",
            )
        )
    with name_scope(name, "KullbackLeibler"):
        value = divergence(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return value
        good = build("LogicalNot", build("IsNan", value))
        of = " and ".join(f"{item.name!r}" for item in (distribution_a, distribution_b))
        with control_dependencies([assert_that(good, f"KL calculation between {of} returned NaN values")]):
            return build("Identity", value)
