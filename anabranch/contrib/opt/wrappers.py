"""Optimizers around others: averages of what they train, bounds of its norms, gradients that are missing; LARS."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.train.optimizer import Optimizer, operation_of, target_of
from anabranch.train.optimizers import AdagradOptimizer, MomentumOptimizer


class AroundOptimizer(Optimizer):
    """An optimizer whose gradients and slots are those of another."""

    def __init__(self, opt: Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Those of the optimizer within."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """That of the optimizer within."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Those of the optimizer within."""
        return self._opt.get_slot_names(*args, **kwargs)


@public("contrib.opt.MovingAverageOptimizer")
class MovingAverageOptimizer(AroundOptimizer):
    """An optimizer that keeps moving averages of what it trains, and a saver that saves these in its place.

    Args:
        opt: the optimizer within.
        average_decay: of ``tf.train.ExponentialMovingAverage``.
        num_updates: as there.
        sequential_update: whether averages are of the updated variables; else they may be of those before.
    """

    def __init__(
        self, opt: Optimizer, average_decay: float = 0.9999, num_updates: Any = None, sequential_update: bool = True
    ) -> None:
        super().__init__(opt, False, "MovingAverageOptimizer")
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._swapped: dict[str, str] | None = None
        self._sequential_update = sequential_update

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Update the variables, then their averages."""
        pairs = list(grads_and_vars)
        trained = self._opt.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([trained] if self._sequential_update else []):
            averaged = self._ema.apply(variables)
        self._swapped = {}
        for variable in variables:
            average = self._ema.average(variable)
            self._swapped[variable.op.name] = average.op.name
            self._swapped[average.op.name] = variable.op.name
        return tf.group(trained, averaged, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Any:
        """A saver that saves averages under the names of variables, and variables under those of averages.

        Args:
            var_list: variables by name, or a list of them; all if None.
            name: of the saver.
            **kwargs: arguments of ``tf.train.Saver``.

        Raises:
            RuntimeError: nothing is trained yet. ValueError: a variable is saved without its average.
        """
        if self._swapped is None:
            raise RuntimeError(
                "Must call apply_gradients or minimize before creating the swapping_saver\n"
                + errors.message(
                    "no averages yet", "those that minimize makes", "minimize(loss), then swapping_saver()"
                )
            )
        given = tf.global_variables() if var_list is None else var_list
        by_name = dict(given) if isinstance(given, dict) else {variable.op.name: variable for variable in given}
        swapped = {}
        for key in by_name:
            other = self._swapped.get(key, key)
            if other not in by_name:
                raise ValueError(
                    f"Variable to swap {other} is not part of variables to save. This breaks MovingAverageOptimizer.\n"
                    + errors.message(f"{key!r} without {other!r}", "a variable and its average", "var_list=None")
                )
            swapped[key] = by_name[other]
        return tf.train.Saver(swapped, name=name, **kwargs)


@public("contrib.opt.VariableClippingOptimizer")
class VariableClippingOptimizer(AroundOptimizer):
    """An optimizer that bounds the norms of some variables after each update.

    Args:
        opt: the optimizer within.
        vars_to_clip_dims: by variable the dimensions along which its norm is taken.
        max_norm: the bound.
        use_locking: kept for compatibility.
        colocate_clip_ops_with_vars: compute norms where the variable is.
        name: of the operations.
    """

    def __init__(
        self,
        opt: Optimizer,
        vars_to_clip_dims: dict[Any, Sequence[int]],
        max_norm: Any,
        use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False,
        name: str = "VariableClipping",
    ) -> None:
        super().__init__(opt, use_locking, name)
        self._dims = {variable: list(dims) for variable, dims in vars_to_clip_dims.items()}
        self._max_norm, self._colocates = max_norm, colocate_clip_ops_with_vars

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Update the variables, then bound their norms; of rows, those that have a gradient."""
        pairs = list(grads_and_vars)
        with tf.name_scope(name, self._name) as scope:
            done = [self._opt.apply_gradients(pairs, global_step=global_step)]
            with tf.control_dependencies(list(done)):
                done += [self._clipped(g, v) for g, v in pairs if g is not None and v in self._dims]
            return tf.group(*done, name=scope)

    def _clipped(self, gradient: Any, variable: Any) -> Any:
        dims = self._dims[variable]
        with tf.name_scope(f"clip_{variable.op.name}"), self._where(variable):
            if isinstance(gradient, tf.IndexedSlices) and 0 not in dims:
                rows = tf.gather(variable, gradient.indices)  # what is over goes once for each time that a row is there
                rest = tf.IndexedSlices(rows - tf.clip_by_norm(rows, self._max_norm, dims), gradient.indices)
                return variable.scatter_sub(rest, use_locking=self._use_locking)
            value = variable.read_value()
            rest = value - tf.clip_by_norm(value, self._max_norm, dims)
            return variable.assign_sub(rest, use_locking=self._use_locking)

    def _where(self, variable: Any) -> contextlib.AbstractContextManager[Any]:
        return tf.colocate_with(variable) if self._colocates else contextlib.nullcontext()


def _is_zero(gradient: Any) -> Any:
    return tf.equal(tf.count_nonzero(gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient), 0)


@public("contrib.opt.MultitaskOptimizerWrapper")
class MultitaskOptimizerWrapper:
    """An optimizer that leaves a variable and its slots as they are where the whole gradient is zero.

    For losses of several tasks of which some are missing in a batch.

    Args:
        opt: the optimizer within, whose updates change.

    Raises:
        TypeError: ``opt`` is not an optimizer.
    """

    def __init__(self, opt: Optimizer) -> None:
        if not isinstance(opt, Optimizer):
            raise TypeError(
                "Supplied optimizer must be an instance of tf.train.Optimizer\n"
                + errors.message(f"{opt!r}", "an optimizer", "tf.train.MomentumOptimizer(0.1, 0.9)")
            )
        self._opt = opt
        for name in ("_apply_dense", "_resource_apply_dense", "_apply_sparse", "_resource_apply_sparse"):
            setattr(opt, name, self._unless_zero(getattr(opt, name)))

    @staticmethod
    def _unless_zero(update: Any) -> Any:
        def updated(gradient: Any, *args: Any, **kwargs: Any) -> Any:
            def done() -> Any:
                with tf.control_dependencies([update(gradient, *args, **kwargs)]):
                    return tf.no_op()

            return tf.cond(_is_zero(gradient), tf.no_op, done)

        return updated

    def __getattr__(self, name: str) -> Any:
        if name == "_opt":  # of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self._opt, name)


@public("contrib.opt.DropStaleGradientOptimizer")
class DropStaleGradientOptimizer(AroundOptimizer):
    """An optimizer that drops the gradients of a step during which others have counted too many.

    The global step is read before gradients are computed and again when they would be applied; gradients for which it
    has moved by more than ``staleness`` are dropped, and counted in the variable ``stale_counter``.

    Args:
        opt: the optimizer within.
        staleness: by how much the global step may have moved.
        use_locking: kept for compatibility.
        name: of the operations.
    """

    def __init__(
        self, opt: Optimizer, staleness: Any, use_locking: bool = False, name: str = "DropStaleGradient"
    ) -> None:
        super().__init__(opt, use_locking, name)
        self._staleness = staleness

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Those of the optimizer within, behind a look at the global step.

        Raises:
            ValueError: the graph has no global step.
        """
        step = tf.train.get_global_step()
        if step is None:
            raise ValueError(
                errors.message("a graph without a global step", "a global step", "tf.train.get_or_create_global_step()")
            )
        with tf.colocate_with(loss):
            self._local_step = step + 0
        with tf.control_dependencies([self._local_step]):
            return self._opt.compute_gradients(tf.identity(loss), *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Update the variables unless the gradients are stale; the new number of steps that were dropped.

        Raises:
            ValueError: there is no global step.
        """
        if global_step is None:
            raise ValueError(
                errors.message("global_step=None", "the variable that steps count", "tf.train.get_global_step()")
            )
        pairs = list(grads_and_vars)
        with tf.colocate_with(global_step):
            dropped = tf.get_variable("stale_counter", [], initializer=tf.zeros_initializer(), trainable=False)

        def accept() -> Any:
            with tf.control_dependencies([self._opt.apply_gradients(pairs, global_step=global_step, name=name)]):
                return tf.identity(0.0)

        computed = [g if isinstance(g, tf.Tensor) else g.op for g, _ in pairs if g is not None]
        with tf.control_dependencies(computed), tf.colocate_with(global_step):
            now = tf.assign_add(global_step, 0)  # what others have counted by now, whatever the step has seen of it
            moved = tf.reshape(now - self._local_step, [])
        taken = tf.cond(tf.less_equal(moved, self._staleness), accept, lambda: tf.identity(1.0))
        counted = dropped.assign_add(taken)
        tf.summary.scalar("Gradient staleness percentage", dropped / tf.cast(global_step + 1, tf.float32))
        return counted


@public("contrib.opt.clip_gradients_by_global_norm")
def clip_gradients_by_global_norm(gradients_variables: Any, clip_norm: Any = 20.0) -> tuple[list[tuple[Any, Any]], Any]:
    """Gradients with a bound of their common norm, to which gradients that are zero throughout add nothing.

    Args:
        gradients_variables: pairs of a gradient and a variable.
        clip_norm: the bound.

    Returns:
        The pairs with new gradients, and the norm.
    """
    gradients, variables = zip(*gradients_variables, strict=True)
    norm = tf.global_norm(gradients)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    return list(zip(clipped, variables, strict=True)), norm


@public("contrib.opt.RegAdagradOptimizer")
class RegAdagradOptimizer(AdagradOptimizer):
    """Adagrad whose sums of squares some updates leave as they are, such as those of a regularisation.

    Args:
        learning_rate: float or scalar tensor.
        initial_accumulator_value: start of the sums.
        use_locking: kept for compatibility.
        name: of the scope.
    """

    _updates_slots = True

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "RegAdagrad",
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)

    def _build_update(self, form: str, var: Any, **inputs: Any) -> Any:
        return super()._build_update(form, var, **inputs, update_slots=self._updates_slots)

    @contextlib.contextmanager
    def avoid_updating_slots(self) -> Iterator[None]:
        """Have updates that are made in the block leave the sums as they are."""
        before, self._updates_slots = self._updates_slots, False
        try:
            yield
        finally:
            self._updates_slots = before


@public("contrib.opt.LARSOptimizer")
class LARSOptimizer(MomentumOptimizer):
    """Momentum with a rate for each variable by the ratio of its norm and its gradient's (You et al., 2017).

    A sparse gradient goes the way of plain momentum.

    Args:
        learning_rate: float or scalar tensor.
        momentum: at least 0.
        weight_decay: at least 0.
        eeta: factor of the ratio.
        epsilon: added to the norm of the gradient.
        name: of the scope.
        skip_list: parts of names of variables that go the way of plain momentum.
        use_nesterov: Nesterov's form.

    Raises:
        ValueError: a number is negative.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        for what, number in (("momentum", momentum), ("weight_decay", weight_decay)):
            if number < 0.0:
                raise ValueError(
                    f"{what} should be positive: {number}\n"
                    + errors.message(f"{what}={number}", "a number that is not negative", f"{what}=0.0")
                )
        super().__init__(learning_rate, momentum, False, name, use_nesterov)
        self._weight_decay, self._eeta, self._epsilon, self._skip_list = weight_decay, eeta, epsilon, skip_list

    def compute_lr(self, grad: Any, var: Any) -> tuple[Any, Any]:
        """The rate of a variable, and its gradient with the decay."""
        rate = self._learning_rate
        if self._skip_list is not None and any(part in var.name for part in self._skip_list):
            return rate, grad
        size, slope = tf.norm(var, ord=2), tf.norm(grad, ord=2)
        ratio = self._eeta * size / (slope + self._weight_decay * size + self._epsilon)
        known = tf.logical_and(size > 0, slope > 0)
        return rate * tf.where(known, ratio, tf.ones_like(ratio)), grad + self._weight_decay * var

    def _dense(self, form: str, grad: Any, var: Any) -> Any:
        rate, grad = self.compute_lr(grad, var)
        update = build(
            f"{form}Momentum",
            var=target_of(var),
            accum=target_of(self.get_slot(var, "momentum")),
            lr=tf.ones([], var.dtype.base_dtype),
            grad=grad * rate,
            momentum=self._numbers_for(var)["momentum"],
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        )
        return operation_of(update)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._dense("Apply", grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._dense("ResourceApply", grad, handle)
