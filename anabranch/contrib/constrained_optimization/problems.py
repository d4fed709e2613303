"""What is minimized under which constraints."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.constrained_optimization.ConstrainedMinimizationProblem")
class ConstrainedMinimizationProblem(abc.ABC):
    """An objective to minimize where constraints are at most 0; a program derives a class from this one."""

    @property
    @abc.abstractmethod
    def objective(self) -> Any:
        """The scalar tensor to minimize."""

    @property
    @abc.abstractmethod
    def constraints(self) -> Any:
        """A tensor of a known shape whose elements are to be at most 0."""

    @property
    def proxy_constraints(self) -> Any:
        """Tensor to differentiate in place of the constraints, or None: where these are steps, say."""
        return None

    @property
    def pre_train_ops(self) -> Sequence[Any]:
        """Operations to run before each update."""
        return []

    @property
    def num_constraints(self) -> int:
        """How many constraints there are.

        Raises:
            ValueError: their shape is not known, or the proxies have another one.
        """
        shape = self.constraints.get_shape()
        proxies = shape if self.proxy_constraints is None else self.proxy_constraints.get_shape()
        if not shape.is_fully_defined() or not proxies.is_fully_defined():
            raise ValueError(
                "constraints and proxy_constraints must have fully-known shapes\n"
                + errors.message(f"shapes {shape} and {proxies}", "known shapes", "constraints.set_shape([n])")
            )
        if shape != proxies:
            raise ValueError(
                "constraints and proxy_constraints must have the same shape\n"
                + errors.message(f"shapes {shape} and {proxies}", "one shape", "a proxy for each constraint")
            )
        return int(shape.num_elements())
