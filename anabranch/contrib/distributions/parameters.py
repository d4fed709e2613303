"""Distributions whose parameters any number gives: ``softplus`` makes it positive, or its absolute value is taken."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.distributions.families import Chi2, InverseGamma
from anabranch.core.contract.api import public
from anabranch.distributions.base import Distribution
from anabranch.distributions.bounded import Beta, Exponential, Gamma
from anabranch.distributions.unbounded import Laplace, Normal, StudentT


def keep_parameters(distribution: Distribution, parameters: dict[str, Any]) -> None:
    """Let a distribution's ``parameters`` be its own arguments, not those that it gave the class it derives from."""
    distribution._parameters = {
        key: value for key, value in parameters.items() if key != "self" and not key.startswith("__")
    }


def _positive(value: Any, name: str) -> Any:
    return tf.nn.softplus(value, name=f"softplus_{name}")


@public("contrib.distributions.NormalWithSoftplusScale")
class NormalWithSoftplusScale(Normal):
    """Normal numbers of standard deviation ``softplus(scale)``."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "NormalWithSoftplusScale",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[scale]):
            positive = _positive(scale, "scale")
        super().__init__(loc, positive, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.LaplaceWithSoftplusScale")
class LaplaceWithSoftplusScale(Laplace):
    """Laplace's distribution of scale ``softplus(scale)``."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LaplaceWithSoftplusScale",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[scale]):
            positive = _positive(scale, "scale")
        super().__init__(loc, positive, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.StudentTWithAbsDfSoftplusScale")
class StudentTWithAbsDfSoftplusScale(StudentT):
    """Student's t of ``floor(abs(df))`` degrees of freedom and scale ``softplus(scale)``."""

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentTWithAbsDfSoftplusScale",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[df, scale]):
            degrees, positive = tf.floor(tf.abs(df)), _positive(scale, "scale")
        super().__init__(degrees, loc, positive, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.Chi2WithAbsDf")
class Chi2WithAbsDf(Chi2):
    """Chi-squared of ``floor(abs(df))`` degrees of freedom."""

    def __init__(
        self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2WithAbsDf"
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[df]):
            degrees = tf.floor(tf.abs(df, name="abs_df"))
        super().__init__(degrees, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.ExponentialWithSoftplusRate")
class ExponentialWithSoftplusRate(Exponential):
    """Waiting times of rate ``softplus(rate)``."""

    def __init__(
        self,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ExponentialWithSoftplusRate",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[rate]):
            positive = _positive(rate, "rate")
        super().__init__(positive, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.GammaWithSoftplusConcentrationRate")
class GammaWithSoftplusConcentrationRate(Gamma):
    """Gamma numbers of ``softplus(concentration)`` and ``softplus(rate)``."""

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "GammaWithSoftplusConcentrationRate",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[concentration, rate]):
            both = _positive(concentration, "concentration"), _positive(rate, "rate")
        super().__init__(*both, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.InverseGammaWithSoftplusConcentrationRate")
class InverseGammaWithSoftplusConcentrationRate(InverseGamma):
    """Reciprocals of gamma numbers of ``softplus(concentration)`` and ``softplus(rate)``."""

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "InverseGammaWithSoftplusConcentrationRate",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[concentration, rate]):
            both = _positive(concentration, "concentration"), _positive(rate, "rate")
        super().__init__(*both, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.BetaWithSoftplusConcentration")
class BetaWithSoftplusConcentration(Beta):
    """Beta numbers of ``softplus(concentration1)`` and ``softplus(concentration0)``."""

    def __init__(
        self,
        concentration1: Any,
        concentration0: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "BetaWithSoftplusConcentration",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[concentration1, concentration0]):
            both = _positive(concentration1, "concentration1"), _positive(concentration0, "concentration0")
        super().__init__(*both, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)
