"""Distributions over vectors: Dirichlet, Multinomial, DirichletMultinomial, independent normal numbers."""

from __future__ import annotations

import math
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import OperationCount, count_more, counted_as
from anabranch.core.values import dtypes, shapes
from anabranch.distributions import checks
from anabranch.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    assert_that,
    broadcast_shape,
    dynamic_shape,
    floats,
    new_seed,
    number,
    vector,
)
from anabranch.distributions.checks import checked
from anabranch.distributions.counted import logits_and_probs
from anabranch.ops.math import public_assert
from anabranch.ops.nn.public_losses import log_softmax
from anabranch.ops.random.public import multinomial, random_gamma, random_normal


def _count(n: Any) -> Any:
    return [n] if isinstance(n, int) else build("ExpandDims", n, 0)


def _sum(x: Any, keep: bool = False) -> Any:
    return build("Sum", x, [-1], keep_dims=keep)


def log_beta(x: Any) -> Any:
    """The logarithm of the multivariate beta function over the last dimension."""
    return _sum(build("Lgamma", x)) - build("Lgamma", _sum(x))


def _outer(x: Any) -> Any:
    return build("Mul", build("ExpandDims", x, -1), build("ExpandDims", x, -2))


def _log_ways(counts: Any, total: Any) -> Any:
    """The logarithm of the number of orders in which the counts can come up."""
    return build("Lgamma", total + 1.0) - _sum(build("Lgamma", counts + 1.0))


class _Vectors(Distribution):
    """A distribution whose parameter ``_parameter()`` has the outcomes in its last dimension."""

    def _parameter(self) -> Any:
        raise NotImplementedError

    def _event(self) -> Any:
        raw = self._parameter()._shape
        return (None,) if raw is None else raw[-1:], dynamic_shape(self._parameter())[-1:]

    def _batch(self) -> Any:
        raw = self._parameter()._shape
        return None if raw is None else raw[:-1], dynamic_shape(self._parameter())[:-1]


@public("distributions.Dirichlet", "contrib.distributions.Dirichlet")
class Dirichlet(_Vectors):
    """Over vectors of positive numbers with sum 1: density proportional to ``prod(x^(concentration - 1))``."""

    def __init__(
        self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Dirichlet"
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[concentration]):
            tensors = floats("Dirichlet", concentration=concentration)["concentration"]
            self._concentration = checked(
                tensors,
                validate_args,
                checks.positive(tensors, "Concentration parameter must be positive."),
                lambda: public_assert.assert_rank_at_least(
                    tensors, 1, message="Concentration parameter must have >=1 dimensions."
                ),
                lambda: public_assert.assert_less(
                    1, build("Shape", tensors)[-1], message="Concentration parameter must have event_size >= 2."
                ),
            )
            self._total = _sum(self._concentration)
        super().__init__(
            tensors.dtype.base, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [tensors], name
        )

    @property
    def concentration(self) -> Any:
        """``[..., k]``."""
        return self._concentration

    @property
    def total_concentration(self) -> Any:
        """The sum over the last dimension."""
        return self._total

    def _parameter(self) -> Any:
        return self._concentration

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_gamma(_count(n), self._concentration, None, self._dtype, seed)
        return drawn / _sum(drawn, keep=True)

    def _log_prob(self, x: Any) -> Any:
        sums = checks.near(number(1, x), _sum(x), "sample last-dimension must sum to `1`")
        x = checked(x, self._validate_args, checks.positive(x, "samples must be positive"), sums)
        return _sum(build("Xlogy", self._concentration - 1.0, x)) - log_beta(self._concentration)

    def _entropy(self) -> Any:
        a, total = self._concentration, self._total
        size = build("Cast", build("Shape", a)[-1], DstT=self._dtype)
        return log_beta(a) + (total - size) * build("Digamma", total) - _sum((a - 1.0) * build("Digamma", a))

    def _mean(self) -> Any:
        return self._concentration / build("ExpandDims", self._total, -1)

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1.0 - mean) / (1.0 + build("ExpandDims", self._total, -1))

    def _covariance(self) -> Any:
        mean = self._mean()
        scale = build("ExpandDims", build("ExpandDims", 1.0 + self._total, -1), -1)
        return build("MatrixSetDiag", -_outer(mean) / scale, self._variance())

    def _mode(self) -> Any:
        size = build("Cast", build("Shape", self._concentration)[-1], DstT=self._dtype)
        value = (self._concentration - 1.0) / build("ExpandDims", self._total - size, -1)
        above = build("Greater", self._concentration, number(1, value))
        defined = build("All", above, [-1], keep_dims=True)
        return self._undefined(defined, value, "Mode undefined when any concentration <= 1")


class _Counts(_Vectors):
    """A distribution over counts that add up to ``total_count``."""

    _total_count: Any
    _summed = "counts"

    @property
    def total_count(self) -> Any:
        """How many are drawn."""
        return self._total_count

    def _batch(self) -> Any:
        raw, _ = super()._batch()
        batch = self._parameter()[..., 0]
        known, dynamic = broadcast_shape(self._total_count, batch)
        return (raw if known is None else known), dynamic

    def _checked(self, counts: Any) -> Any:
        sums = checks.equal(self._total_count, _sum(counts), f"{self._summed} must sum to `self.total_count`")
        return checked(counts, self._validate_args, *checks.counts(counts), sums)

    def _per_member(self) -> Any:
        """Totals that broadcast with the batch."""
        return self._total_count

    def _draw(self, logits: Any, n: Any, seed: int | None) -> Any:
        """Counts ``[n, *batch, k]`` by logits of that shape."""
        rows = build("Reshape", logits, vector([-1], dynamic_shape(logits)[-1:]))
        totals = build("Reshape", self._per_member() * build("OnesLike", logits[..., 0]), [-1])
        whole = build("Cast", totals, DstT=dtypes.int32)
        most = build("Max", build("ConcatV2", [whole, convert_to_tensor([0], dtypes.int32)], 0), [0])
        drawn = multinomial(rows, most, seed, output_dtype=dtypes.int32)
        # All rows draw as many as the largest total; what is too much for a row is not counted.
        counted = build("Less", build("Range", 0, most, 1), build("ExpandDims", whole, 1))
        size = build("Shape", logits)[-1]
        hot = build("OneHot", drawn, size, number(1, logits), number(0, logits))
        unfinished = build("SelectV2", build("ExpandDims", counted, -1), hot, build("ZerosLike", hot))
        return build("Reshape", build("Sum", unfinished, [1]), dynamic_shape(logits))


@public("distributions.Multinomial", "contrib.distributions.Multinomial")
class Multinomial(_Counts):
    """How often each class comes up in ``total_count`` draws by ``probs``, or by log-probabilities ``logits``."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name):
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args, "Multinomial")
            self._total_count = floats("Multinomial", self._logits.dtype.base, total_count=total_count)["total_count"]
            self._total_count = checked(self._total_count, validate_args, *checks.counts(self._total_count))
            count_more(5 if probs is None else 2)  # the number of classes
        super().__init__(
            self._probs.dtype.base,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._total_count, self._logits, self._probs],
            name,
        )

    @property
    def logits(self) -> Any:
        """Log-probabilities, which need no normalisation."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._probs

    def _parameter(self) -> Any:
        return self._probs

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = vector(_count(n), self._batch()[1], self._event()[1])
        spread = build("BroadcastTo", self._logits, shape)
        known = self._logits.shape.is_fully_defined()
        count_more(64 if known else 42)  # a loop over the batch
        drawn = self._draw(spread, n, seed)
        count_more(9 if known else 13)
        return drawn

    def _log_prob(self, counts: Any) -> Any:
        counts = self._checked(counts)
        return _sum(build("MulNoNan", log_softmax(self._logits), counts)) + _log_ways(counts, self._total_count)

    def _mean(self) -> Any:
        return self._probs * build("ExpandDims", self._total_count, -1)

    def _variance(self) -> Any:
        return build("ExpandDims", self._total_count, -1) * self._probs * (1.0 - self._probs)

    def _covariance(self) -> Any:
        total = build("ExpandDims", build("ExpandDims", self._total_count, -1), -1)
        return build("MatrixSetDiag", -total * _outer(self._probs), self._variance())


@public("distributions.DirichletMultinomial", "contrib.distributions.DirichletMultinomial")
class DirichletMultinomial(_Counts):
    """Multinomial counts whose probabilities are drawn from a Dirichlet distribution."""

    _summed = "counts last-dimension"

    def __init__(
        self,
        total_count: Any,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[total_count, concentration]):
            tensors = floats("DirichletMultinomial", concentration=concentration)["concentration"]
            self._concentration = checked(
                tensors,
                validate_args,
                checks.several_events(tensors),
                checks.positive(tensors, "Concentration parameter must be positive."),
            )
            total = floats("DirichletMultinomial", tensors.dtype.base, total_count=total_count)["total_count"]
            self._total_count = checked(total, validate_args, *checks.counts(total))
            self._total = _sum(self._concentration)
        super().__init__(
            tensors.dtype.base,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._total_count, tensors],
            name,
        )

    @property
    def concentration(self) -> Any:
        """``[..., k]``."""
        return self._concentration

    @property
    def total_concentration(self) -> Any:
        """The sum over the last dimension."""
        return self._total

    def _parameter(self) -> Any:
        return self._concentration

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        batch = self._batch()[1]
        spread = build("BroadcastTo", self._concentration, vector(batch, self._event()[1]))
        drawn = random_gamma(_count(n), spread, None, self._dtype, seed)
        return self._draw(build("Log", drawn), n, new_seed(seed, "dirichlet_multinomial"))

    def _log_prob(self, counts: Any) -> Any:
        counts = self._checked(counts)
        change = log_beta(self._concentration + counts) - log_beta(self._concentration)
        return change + _log_ways(counts, self._total_count)

    def _batch(self) -> Any:
        return _Vectors._batch(self) if self._totals_end_in_1 else super()._batch()

    @property
    def _totals_end_in_1(self) -> bool:
        """Whether totals ``[..., 1]`` stand beside concentrations ``[..., k]``: TensorFlow's moments take them so."""
        totals, own = self._total_count._shape, self._concentration._shape
        return bool(totals) and own is not None and len(totals) == len(own) and totals[-1] == 1

    def _per_member(self) -> Any:
        return self._total_count[..., 0] if self._totals_end_in_1 else self._total_count

    def _totals(self) -> Any:
        """Totals that broadcast with the concentrations."""
        return self._total_count if self._totals_end_in_1 else build("ExpandDims", self._total_count, -1)

    def _terms(self) -> tuple[Any, Any]:
        """``[..., 1]``: totals times by how much variances exceed those of fixed probabilities; ``[..., k]``: these."""
        all_concentrations = build("ExpandDims", self._total, -1)
        totals, probs = self._totals(), self._concentration / all_concentrations
        return totals * (all_concentrations + totals) / (1.0 + all_concentrations), probs

    def _mean(self) -> Any:
        return self._totals() * (self._concentration / build("ExpandDims", self._total, -1))

    def _variance(self) -> Any:
        scale, probs = self._terms()
        return scale * probs * (1.0 - probs)

    def _covariance(self) -> Any:
        scale, probs = self._terms()
        return build("MatrixSetDiag", -build("ExpandDims", scale, -1) * _outer(probs), self._variance())


@public("contrib.distributions.MultivariateNormalDiag")
class MultivariateNormalDiag(Distribution):
    """Vectors of independent normal numbers of mean ``loc`` and standard deviation ``scale_diag``.

    ``scale_identity_multiplier`` is added to all of ``scale_diag``, which is 1 if neither is given.
    """

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiag",
    ) -> None:
        parameters = dict(locals())
        if loc is None and scale_diag is None:
            raise ValueError(
                errors.message(
                    f"{name} without loc and scale_diag",
                    "loc, scale_diag, or both",
                    "MultivariateNormalDiag(loc=[0.0])",
                )
            )
        with name_scope(name):
            tensors = floats(
                "MultivariateNormalDiag",
                loc=loc,
                scale_diag=scale_diag,
                scale_identity_multiplier=scale_identity_multiplier,
            )
            counted = OperationCount()
            first = tensors.get("scale_diag", tensors.get("loc"))
            assert first is not None
            scale: Any = tensors.get("scale_diag")
            if "scale_identity_multiplier" in tensors:
                more = build("ExpandDims", tensors["scale_identity_multiplier"], -1)
                scale = more * build("OnesLike", first) if scale is None else scale + more
            self._scale = build("OnesLike", first) if scale is None else scale
            self._loc = tensors.get("loc", build("ZerosLike", self._scale))
            self._less = (loc is None) + 3 * (scale_diag is None)
            if scale_identity_multiplier is not None:
                self._less = -2
            counted.set(self._made_of(loc is None, scale_diag is None, scale_identity_multiplier is None))
            if validate_args:
                scale = self._scale
                nonzero = build("NotEqual", scale, number(0, scale))
                words = "Singular operator:  Diagonal contained zero values."
                self._scale = checked(scale, True, lambda: assert_that(nonzero, words, scale))
        super().__init__(
            self._scale.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._loc, self._scale],
            name,
        )

    @property
    def loc(self) -> Any:
        """The mean ``[..., k]``."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The diagonal factor, a linear operator."""
        return api.names()["linalg.LinearOperatorDiag"](self._scale, is_non_singular=True, is_self_adjoint=True)

    def _whole(self) -> tuple[shapes.RawShape, Any]:
        return broadcast_shape(self._loc, self._scale)

    def _batch(self) -> Any:
        raw, dynamic = self._whole()
        return None if raw is None else raw[:-1], dynamic[:-1]

    def _event(self) -> Any:
        raw, dynamic = self._whole()
        return (None,) if raw is None else raw[-1:], dynamic[-1:]

    def _known(self) -> bool:
        raw = self._whole()[0]
        return raw is not None and None not in raw

    def _made_of(self, no_loc: bool, no_scale: bool, no_multiplier: bool) -> int:
        """How many operations TensorFlow makes of the parameters: an operator for the scale, and a flow of shapes."""
        with counted_as(0, captures=False):
            known = self._known()
        if known:
            batch = 3 * (len(self._scale._shape) > 1 or len(self._loc._shape) > 1)
            return 40 - no_loc + no_scale + 2 * (not no_multiplier) + batch
        if self._scale._shape is not None and None not in self._scale._shape:
            return 47
        return 58 - 6 * no_loc

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        counted = OperationCount()
        shape = vector(_count(n), self._whole()[1])
        known = self._known()
        counted.set(5 if known else 10)
        result = random_normal(shape, 0.0, 1.0, self._dtype, seed) * self._scale + self._loc
        # TensorFlow computes shapes of batches and events.
        scales_known = self._scale._shape is not None and None not in self._scale._shape
        counted.set((53 if known else 67 if scales_known else 72) - self._less)
        return result

    def _log_prob(self, x: Any) -> Any:
        z = (x - self._loc) / self._scale
        return _sum(-0.5 * build("Square", z) - 0.5 * math.log(2 * math.pi) - build("Log", build("Abs", self._scale)))

    def _entropy(self) -> Any:
        scale = self._scale * build("OnesLike", self._loc)
        return _sum(build("Log", build("Abs", scale)) + 0.5 * math.log(2 * math.pi * math.e))

    def _mean(self) -> Any:
        return self._loc * build("OnesLike", self._scale)

    def _mode(self) -> Any:
        return self._mean()

    def _stddev(self) -> Any:
        return build("Abs", self._scale)

    def _covariance(self) -> Any:
        return build("MatrixDiag", build("Square", self._stddev()))
