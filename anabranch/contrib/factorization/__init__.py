"""``tf.contrib.factorization``: k-means clustering, and matrix factorisation by weighted alternating least squares."""

from anabranch.contrib.factorization import clustering, least_squares
from anabranch.core.contract import api

__all__ = ["clustering", "least_squares"]
__getattr__, __dir__ = api.module_attributes("contrib.factorization")
