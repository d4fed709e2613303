"""Exponential moving averages of variables and tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.ops.control.public_dependencies import group
from anabranch.train import slots
from anabranch.train.optimizer import is_resource
from anabranch.variables.initializers import Zeros
from anabranch.variables.listing import moving_average_variables, trainable_variables
from anabranch.variables.scope import get_variable, variable_scope
from anabranch.variables.variable import Variable


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """``variable -= (1 - decay) * (variable - value)``.

    Args:
        variable: the average.
        value: tensor of the same shape.
        decay: scalar in [0, 1).
        zero_debias: divide by ``1 - decay ** steps``, so that an average that began at zero is unbiased
            (Kingma and Ba, 2015).
        name: name of the op.

    Returns:
        The updated average (a tensor).
    """
    builder = current_builder()
    with builder.name_scope(name or "AssignMovingAvg") as scope, builder.colocate_with(variable):
        # Of a number in double precision: 1 - 0.999 has four digits fewer in 32 bits.
        share_of_new = convert.convert_to_tensor(1.0 - decay, name="decay", preferred_dtype=dtypes.float32)
        dtype = variable.dtype.base
        share_of_new = share_of_new if share_of_new.dtype.base == dtype else build("Cast", share_of_new, DstT=dtype)
        value = convert.convert_to_tensor(value, dtype)
        if zero_debias:
            return _debiased(variable, value, share_of_new, scope)
        delta = build("Mul", build("Sub", convert.convert_to_tensor(variable), value), share_of_new)
        return variable.assign_sub(delta, name=scope)


def _debiased(unbiased: Any, value: Any, rest: Any, scope: str) -> Any:
    builder = current_builder()
    with variable_scope(slots.name_of(unbiased), values=[unbiased, value, rest]) as opened, builder.init_scope():
        # A variable may be averaged more than once: each average has its own pair, but where a scope reuses variables.
        taken: set[str] = set()
        if not opened.reuse:
            taken = {variable._shared_name for variable in builder.get_collection(GraphKeys.GLOBAL_VARIABLES)}
        names = ("biased", "local_step")
        for number in itertools.count(1):
            if not taken.intersection(f"{opened.name}/{name}" for name in names):
                break
            names = (f"biased_{number}", f"local_step_{number}")
        biased = get_variable(
            names[0], initializer=Zeros(), shape=unbiased.get_shape(), dtype=unbiased.dtype.base, trainable=False
        )
        steps = get_variable(names[1], shape=[], dtype=unbiased.dtype.base, initializer=Zeros(), trainable=False)
    moved = biased.assign_sub(build("Mul", build("Sub", convert.convert_to_tensor(biased), value), rest))
    counted = steps.assign_add(convert.constant(1.0, unbiased.dtype.base))
    moved, counted = convert.convert_to_tensor(moved), convert.convert_to_tensor(counted)
    one = convert.constant(1.0, unbiased.dtype.base)
    count_more(1)  # the one again
    scale = build("Sub", one, build("Pow", build("Sub", one, rest), counted))
    return unbiased.assign(build("RealDiv", moved, scale), name=scope)


@public("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Keep shadow variables ``shadow = decay * shadow + (1 - decay) * variable``.

    Args:
        decay: float; near 1 for slow averages.
        num_updates: count of updates; the decay is then at most ``(1 + n) / (10 + n)``, so that averages move faster
            at first.
        zero_debias: start averages of tensors at zero and correct the bias.
        name: suffix of the shadows' names.
    """

    def __init__(
        self, decay: float, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ):
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """Suffix of the shadows' names."""
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """An operation that updates the averages of ``var_list``; makes the shadows on first use.

        Args:
            var_list: variables and floating tensors; all trainable variables if None.

        Raises:
            TypeError: an item is not floating.
        """
        chosen = trainable_variables() if var_list is None else list(var_list)
        debiased: set[Any] = set()
        builder = current_builder()
        for var in chosen:
            if var.dtype.base not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
                raise TypeError(
                    f"The variables must be half, float, or double: {var.name}\n"
                    + errors.message(
                        f"{var.name!r} of dtype {var.dtype.base.name}", "a float dtype", "leave it out of var_list"
                    )
                )
            if _key(var) not in self._averages:
                with builder.init_scope():
                    if isinstance(var, Variable):
                        average = slots.create_slot(var, var.initialized_value(), self.name)
                        count_more(0 if is_resource(var) else 20)  # two conditionals, and what guards them
                        builder.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
                    else:
                        average = slots.create_zeros_slot(
                            var,
                            self.name,
                            colocate_with_primary=var._maker is not None and var._maker.definition.makes == "variable",
                        )
                        if self._zero_debias:
                            debiased.add(_key(var))
                self._averages[_key(var)] = average
        with builder.name_scope(self.name) as scope:
            decay = convert.convert_to_tensor(self._decay, name="decay", preferred_dtype=dtypes.float32)
            if self._num_updates is not None:
                count = build(
                    "Cast", convert.convert_to_tensor(self._num_updates, name="num_updates"), DstT=dtypes.float32
                )
                grown = build(
                    "RealDiv", build("Add", convert.constant(1.0), count), build("Add", convert.constant(10.0), count)
                )
                decay = build("Minimum", decay, grown)
            updates = []
            for var in chosen:
                moved = assign_moving_average(
                    self._averages[_key(var)], convert.convert_to_tensor(var), decay, zero_debias=_key(var) in debiased
                )
                updates.append(getattr(moved, "op", moved))
            return group(*updates, name=scope)

    def average(self, var: Any) -> Any:
        """The shadow of ``var``, or None."""
        return self._averages.get(_key(var))

    def average_name(self, var: Any) -> str:
        """Name under which the shadow of ``var`` is saved."""
        average = self.average(var)
        if average is not None:
            return slots.name_of(average)
        return current_builder().unique_name(f"{slots.name_of(var)}/{self.name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict[str, Any]:
        """Names to variables for a ``Saver`` that restores averages into the variables themselves."""
        chosen = (
            trainable_variables() + moving_average_variables()
            if moving_avg_variables is None
            else list(moving_avg_variables)
        )
        averaged = list(dict.fromkeys(chosen))
        names = {self.average_name(var): var for var in averaged}
        keys = {_key(var) for var in averaged}
        for var in current_builder().get_collection(GraphKeys.GLOBAL_VARIABLES):
            if _key(var) not in keys and slots.name_of(var) not in names:
                names[slots.name_of(var)] = var
        return names


def weighted_moving_average(
    value: Tensor,
    decay: Any,
    weight: Tensor,
    truediv: bool = True,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """The moving average of ``value * weight`` over that of ``weight``, both of which take in the values given.

    Args:
        value: what is averaged.
        decay: how much of the averages stays, 0 to 1.
        weight: of this value; multiplies ``value``.
        truediv: divide integers into fractions.
        collections: of the two variables; the global ones if None.
        name: variable scope.
    """
    with variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        parts = []
        for part, update in (("value_x_weight", build("Mul", value, weight)), ("weight", weight)):
            average = get_variable(
                part,
                (value if part == "value_x_weight" else weight).shape,
                update.dtype.base,
                Zeros(),
                trainable=False,
                collections=collections or [GraphKeys.GLOBAL_VARIABLES],
            )
            parts.append(assign_moving_average(average, update, decay, zero_debias=False))
        average = parts[0] / parts[1] if truediv else build("Div", *parts)
        return build("Identity", average, name=f"{scope.original_name_scope}")


def _key(var: Any) -> Any:
    return var if isinstance(var, Tensor) else var._handle_tensor()
