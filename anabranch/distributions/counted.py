"""Distributions over whole numbers: Bernoulli, Categorical, Poisson."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.values import dtypes
from anabranch.distributions import checks
from anabranch.distributions.base import (
    NOT_REPARAMETERIZED,
    Distribution,
    assert_that,
    broadcast_shape,
    drawn_shape,
    dynamic_shape,
    floats,
    number,
    vector,
)
from anabranch.distributions.checks import checked
from anabranch.ops.math import public_assert
from anabranch.ops.nn.public_losses import log_softmax, softmax
from anabranch.ops.random.public import multinomial, random_poisson, random_uniform


def logits_and_probs(logits: Any, probs: Any, several: bool, validate_args: bool, name: str) -> tuple[Any, Any]:
    """Both forms of a parameter of which one is given."""
    if (probs is None) == (logits is None):
        raise ValueError(
            "Must pass probs or logits, but not both.\n"
            + errors.message(
                f"{name} with {'neither' if probs is None else 'both'}", "either probs or logits", f"{name}(probs=...)"
            )
        )
    if logits is not None:
        logits = floats(name, logits=logits)["logits"]
        if not several:
            return logits, build("Sigmoid", logits, name="probs")
        logits = checked(logits, validate_args, checks.several_events(logits))
        return logits, softmax(logits, name="probs")
    probs = floats(name, probs=probs)["probs"]
    assertions: list[checks.Assertion] = [checks.not_negative(probs, "probs has components less than 0.")]
    if several:
        sums = checks.near(build("Sum", probs, [-1]), number(1, probs), "probs does not sum to 1.")
        assertions += [checks.several_events(probs), sums]
    else:
        text = "probs has components greater than 1."
        assertions.append(lambda: public_assert.assert_less_equal(probs, number(1, probs), message=text))
    probs = checked(probs, validate_args, *assertions)
    logarithm = build("Log", probs)
    if several:
        return logarithm, probs
    count_more(1)  # the factor -1
    return logarithm - build("Log1p", -probs), probs


def _count(n: Any) -> Any:
    return [n] if isinstance(n, int) else build("ExpandDims", n, 0)


@public("distributions.Bernoulli", "contrib.distributions.Bernoulli")
class Bernoulli(Distribution):
    """1 with probability ``probs``, or log-odds ``logits``; 0 otherwise."""

    _shaped = ("logits",)

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name):
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args, "Bernoulli")
        super().__init__(
            dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self._logits, self._probs], name
        )

    @property
    def logits(self) -> Any:
        """Log-odds of 1."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probability of 1."""
        return self._probs

    def _batch(self) -> Any:
        return broadcast_shape(self._logits)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        kind = self._probs.dtype.base
        drawn = random_uniform(drawn_shape(n, self._logits), 0.0, 1.0, kind, seed)
        return build("Cast", build("Less", drawn, self._probs), DstT=self._dtype)

    def _log_prob(self, event: Any) -> Any:
        event = checked(event, self._validate_args, *checks.classes(event, dtypes.bool))
        event = build("Cast", event, DstT=self._logits.dtype.base)
        same = event.shape.is_fully_defined() and self._logits._shape == event._shape
        count_more(8 if same else 16)  # the formula for all sizes of the logits, spread over shapes that are not known
        # -log(1 + exp(logits)) for 0, -log(1 + exp(-logits)) for 1.
        return event * self._logits - build("Softplus", self._logits)

    def _entropy(self) -> Any:
        return -self._logits * (build("Sigmoid", self._logits) - 1.0) + build("Softplus", -self._logits)

    def _mean(self) -> Any:
        return build("Identity", self._probs)

    def _variance(self) -> Any:
        return self._probs * (1.0 - self._probs)

    def _mode(self) -> Any:
        return build("Cast", build("Greater", self._probs, number(0.5, self._probs)), DstT=self._dtype)


@public("distributions.Categorical", "contrib.distributions.Categorical")
class Categorical(Distribution):
    """Classes ``0`` to ``k - 1`` with probabilities ``probs``, or log-probabilities ``logits``, ``[..., k]``."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name):
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args, "Categorical")
            raw = self._logits._shape
            count_more(7 if raw is None or None in raw[:-1] else 4)  # numbers of axes and classes, shape of the batch
        super().__init__(
            dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self._logits, self._probs], name
        )

    @property
    def logits(self) -> Any:
        """Log-probabilities, which need no normalisation."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._probs

    @property
    def event_size(self) -> Any:
        """The number of classes."""
        raw = self._logits._shape
        if raw is not None and raw[-1] is not None:
            return convert_to_tensor(raw[-1], dtypes.int32)
        return build("Shape", self._logits)[-1]

    def _batch(self) -> Any:
        raw = self._logits._shape
        return None if raw is None else raw[:-1], dynamic_shape(self._logits)[:-1]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        with counted_as(0 if self._logits.shape.ndims == 2 else 3, captures=False):
            rows = build("Reshape", self._logits, vector([-1], dynamic_shape(self._logits)[-1:]))
        wide = self._dtype if self._dtype == dtypes.int64 else dtypes.int32
        drawn = multinomial(rows, n, seed, output_dtype=wide)
        with counted_as(7, captures=False):
            turned = build("Transpose", drawn, [1, 0])
            samples = build("Reshape", turned, vector(_count(n), self._batch()[1]))
        return samples if wide == self._dtype else build("Cast", samples, DstT=self._dtype)

    def _class(self, k: Any) -> Any:
        """Numbers of classes as integers."""
        k = checked(k, self._validate_args, *checks.classes(k, dtypes.int32))
        return k if k.dtype.base in (dtypes.int32, dtypes.int64) else build("Cast", k, DstT=dtypes.int32)

    def _log_prob(self, k: Any) -> Any:
        k = self._class(k)
        batch = None if self._logits._shape is None else self._logits._shape[:-1]
        same = k.shape.is_fully_defined() and k._shape == batch
        with counted_as(3 if same else 19, captures=False):
            return self._logarithm(k)

    def _logarithm(self, k: Any) -> Any:
        inside = build(
            "LogicalAnd",
            build("GreaterEqual", k, number(0, k)),
            build("Less", k, build("Cast", self.event_size, DstT=k.dtype.base)),
        )
        k = checked(k, self._validate_args, lambda: assert_that(inside, "values must be classes"))
        logits = log_softmax(self._logits)
        # Values and batch are broadcast against each other.
        k = k * build("OnesLike", build("Cast", logits[..., 0], DstT=k.dtype.base))
        spread = logits * build("ExpandDims", build("Cast", build("OnesLike", k), DstT=logits.dtype.base), -1)
        hot = build("OneHot", k, self.event_size, number(1, logits), number(0, logits))
        # Where a class is impossible its logarithm times 0 would be NaN.
        chosen = build("SelectV2", build("Greater", hot, number(0, hot)), spread, build("ZerosLike", spread))
        return build("Sum", chosen, [-1])

    def _cdf(self, k: Any) -> Any:
        k = self._class(k)
        classes = build("Range", number(0, k), build("Cast", self.event_size, DstT=k.dtype.base), number(1, k))
        below = build(
            "Less", classes, build("ExpandDims", k, -1)
        )  # the argument itself does not count, as in TensorFlow
        return build("Sum", softmax(self._logits) * build("Cast", below, DstT=self._probs.dtype.base), [-1])

    def _entropy(self) -> Any:
        logarithm = log_softmax(self._logits)
        count_more(-1)  # of what is at hand
        return -build("Sum", build("MulNoNan", logarithm, build("Exp", logarithm)), [-1])

    def _mode(self) -> Any:
        mode = build("ArgMax", self._logits, -1, output_type=dtypes.int64)
        return build("Cast", mode, DstT=self._dtype)


@public("contrib.distributions.Poisson")
class Poisson(Distribution):
    """Counts of events that occur at ``rate``, or the exponential of ``log_rate``."""

    def __init__(
        self,
        rate: Any = None,
        log_rate: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Poisson",
        interpolate_nondiscrete: bool = True,
    ) -> None:
        parameters = dict(locals())
        if (rate is None) == (log_rate is None):
            raise ValueError(
                "Must specify exactly one of `rate` and `log_rate`.\n"
                + errors.message("Poisson with both or neither", "either rate or log_rate", "Poisson(rate=3.0)")
            )
        if not interpolate_nondiscrete:
            raise NotImplementedError(
                errors.message(
                    "interpolate_nondiscrete=False",
                    "interpolate_nondiscrete=True",
                    "probabilities of whole numbers only",
                )
            )
        with name_scope(name):
            if rate is None:
                self._log_rate = floats("Poisson", log_rate=log_rate)["log_rate"]
                self._rate = build("Exp", self._log_rate)
            else:
                given = floats("Poisson", rate=rate)["rate"]
                self._rate = checked(given, validate_args, checks.positive(given, "rate must be positive"))
                self._log_rate = build("Log", self._rate)
        count_more(log_rate is None)  # the rate, passed on
        super().__init__(
            self._rate.dtype.base, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self._rate], name
        )

    @property
    def rate(self) -> Any:
        """The mean."""
        return self._rate

    @property
    def log_rate(self) -> Any:
        """Its logarithm."""
        return self._log_rate

    def _batch(self) -> Any:
        return broadcast_shape(self._rate)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return random_poisson(self._rate, _count(n), self._dtype, seed)

    def _log_prob(self, x: Any) -> Any:
        x = checked(x, self._validate_args, *checks.counts(x))
        return build("Xlogy", x, self._rate) - build("Lgamma", x + 1.0) - self._rate

    def _cdf(self, x: Any) -> Any:
        x = checked(x, self._validate_args, *checks.counts(x))
        x = build("Maximum", x, number(0, x))
        ones = build("OnesLike", x + self._rate)
        return build("Igammac", (1.0 + x) * ones, self._rate * ones)

    def _mean(self) -> Any:
        return build("Identity", self._rate)

    def _variance(self) -> Any:
        return build("Identity", self._rate)

    def _mode(self) -> Any:
        return build("Floor", self._rate)
