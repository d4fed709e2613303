"""Divergences of Kullback and Leibler between distributions of one family."""

from __future__ import annotations

import math
from typing import Any

from anabranch.core.graph.build import build
from anabranch.distributions.base import RegisterKL
from anabranch.distributions.bounded import Beta, Exponential, Gamma, Uniform
from anabranch.distributions.counted import Bernoulli, Categorical, Poisson
from anabranch.distributions.multivariate import Dirichlet, MultivariateNormalDiag, log_beta
from anabranch.distributions.unbounded import Laplace, Normal
from anabranch.ops.nn.public_losses import log_softmax


def _log(x: Any) -> Any:
    return build("Log", x)


def _sum(x: Any) -> Any:
    return build("Sum", x, [-1])


@RegisterKL(Normal, Normal)
def _normal(a: Any, b: Any, name: str | None = None) -> Any:
    ratio = build("Square", a.scale / b.scale)
    return build("Square", (a.loc - b.loc) / b.scale) * 0.5 + 0.5 * (ratio - 1.0 - _log(ratio))


@RegisterKL(Laplace, Laplace)
def _laplace(a: Any, b: Any, name: str | None = None) -> Any:
    distance = build("Abs", a.loc - b.loc)
    return _log(b.scale) - _log(a.scale) + (distance + a.scale * build("Exp", -distance / a.scale)) / b.scale - 1.0


@RegisterKL(Uniform, Uniform)
def _uniform(a: Any, b: Any, name: str | None = None) -> Any:
    inside = build("LogicalAnd", build("LessEqual", b.low, a.low), build("LessEqual", a.high, b.high))
    value = _log(b.high - b.low) - _log(a.high - a.low)
    return build("SelectV2", inside, value, build("Cast", math.inf, DstT=value.dtype.base))


@RegisterKL(Bernoulli, Bernoulli)
def _bernoulli(a: Any, b: Any, name: str | None = None) -> Any:
    one = build("Softplus", -b.logits) - build("Softplus", -a.logits)
    zero = build("Softplus", b.logits) - build("Softplus", a.logits)
    return build("Sigmoid", a.logits) * one + build("Sigmoid", -a.logits) * zero


@RegisterKL(Categorical, Categorical)
def _categorical(a: Any, b: Any, name: str | None = None) -> Any:
    first, second = log_softmax(a.logits), log_softmax(b.logits)
    return _sum(build("MulNoNan", first - second, build("Exp", first)))


@RegisterKL(Poisson, Poisson)
def _poisson(a: Any, b: Any, name: str | None = None) -> Any:
    return a.rate * (a.log_rate - b.log_rate) + (b.rate - a.rate)


@RegisterKL(Beta, Beta)
def _beta(a: Any, b: Any, name: str | None = None) -> Any:
    def part(x: Any, y: Any) -> Any:
        return (y - x) * build("Digamma", x)

    change = part(a.concentration1, b.concentration1) + part(a.concentration0, b.concentration0)
    return b.log_normalizer() - a.log_normalizer() - change + part(a.total_concentration, b.total_concentration)


@RegisterKL(Gamma, Gamma)
def _gamma(a: Any, b: Any, name: str | None = None) -> Any:
    return (
        (a.concentration - b.concentration) * build("Digamma", a.concentration)
        + build("Lgamma", b.concentration)
        - build("Lgamma", a.concentration)
        + b.concentration * (_log(a.rate) - _log(b.rate))
        + a.concentration * (b.rate / a.rate - 1.0)
    )


@RegisterKL(Exponential, Exponential)
def _exponential(a: Any, b: Any, name: str | None = None) -> Any:
    return _log(a.rate) - _log(b.rate) + b.rate / a.rate - 1.0


@RegisterKL(Dirichlet, Dirichlet)
def _dirichlet(a: Any, b: Any, name: str | None = None) -> Any:
    digamma = build("Digamma", a.concentration)
    change = digamma - build("Digamma", build("Sum", a.concentration, [-1], keep_dims=True))
    moved = _sum((a.concentration - b.concentration) * change)
    return moved - log_beta(a.concentration) + log_beta(b.concentration)


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _normal_vectors(a: Any, b: Any, name: str | None = None) -> Any:
    ratio = build("Square", a.stddev() / b.stddev())
    return _sum(build("Square", (a.loc - b.loc) / b.stddev()) * 0.5 + 0.5 * (ratio - 1.0 - _log(ratio)))
