"""``tf.contrib.distributions``: the distributions of ``tf.distributions``, and some that only this library names."""

from __future__ import annotations

from anabranch import distributions
from anabranch.contrib.distributions import (
    bijectors,
    derived,
    families,
    flows,
    matrices,
    matrix_bijectors,
    mixtures,
    normals,
    parameters,
    scalar_bijectors,
    skewed,
    statistics,
    transformed,
    wishart,
)
from anabranch.core.contract import api

__all__ = [
    "bijectors",
    "derived",
    "distributions",
    "families",
    "flows",
    "matrices",
    "matrix_bijectors",
    "mixtures",
    "normals",
    "parameters",
    "scalar_bijectors",
    "skewed",
    "statistics",
    "transformed",
    "wishart",
]
__getattr__, __dir__ = api.module_attributes("contrib.distributions")
