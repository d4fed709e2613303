"""``tf.contrib.distributions``: the distributions of ``tf.distributions``, and some that only this library names."""

from __future__ import annotations

from anabranch import distributions
from anabranch.contrib.distributions import (
    bijectors,
    families,
    flows,
    matrices,
    matrix_bijectors,
    mixtures,
    normals,
    parameters,
    transformed,
    wishart,
)
from anabranch.core.contract import api

__all__ = [
    "bijectors",
    "distributions",
    "families",
    "flows",
    "matrices",
    "matrix_bijectors",
    "mixtures",
    "normals",
    "parameters",
    "transformed",
    "wishart",
]
__getattr__, __dir__ = api.module_attributes("contrib.distributions")
