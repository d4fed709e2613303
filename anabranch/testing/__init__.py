"""Tools for tests of ops and of programs: running single ops, comparing tiers, checking gradients."""

from anabranch.testing import modes as _modes  # noqa: F401 - imported for what it publishes
from anabranch.testing.check_gradients import check_gradients
from anabranch.testing.compute_gradient import compute_gradient, compute_gradient_error

__all__ = ["check_gradients", "compute_gradient", "compute_gradient_error"]
