"""``tf.contrib.solvers``: linear systems and bidiagonal forms by products with a matrix alone."""

from anabranch.contrib.solvers import iterations
from anabranch.core.contract import api

__all__ = ["iterations"]
__getattr__, __dir__ = api.module_attributes("contrib.solvers")
