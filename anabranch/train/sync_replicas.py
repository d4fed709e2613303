"""``tf.train.SyncReplicasOptimizer``: several workers whose gradients make one step together.

How it works. Each variable has an accumulator beside it. A worker's training op adds its gradients to the accumulators,
marked with the worker's ``local_step``; an accumulator drops those that are older than its own step. The chief runs one
more thread (a queue runner): it takes the mean of every accumulator once ``replicas_to_aggregate`` gradients are in,
applies it, moves the global step on, and puts as many tokens, the number of the new step, into the token queue as there
are replicas. A worker's training op ends when it has taken a token, which becomes its ``local_step``.

With more replicas than gradients to aggregate, those that come last in a step are *backup workers*: what they give
is stale by then and dropped, and they go on with the next step's token.

An unmodified program gets just this, the synchronous mode; with ``total_num_replicas`` above ``replicas_to_aggregate``,
synchronous with backup workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.public_scopes import control_dependencies, device, name_scope
from anabranch.core.values import dtypes
from anabranch.ops.array.public_shapes import fill
from anabranch.ops.array.sources import no_op
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.queues.public_accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from anabranch.ops.queues.public_queues import FIFOQueue
from anabranch.train.coordinator import QueueRunner
from anabranch.train.optimizer import Optimizer
from anabranch.train.session_manager import SessionManager
from anabranch.train.session_run_hook import SessionRunHook
from anabranch.variables import listing
from anabranch.variables.variable import Variable


@public("train.SyncReplicasOptimizer")
class SyncReplicasOptimizer(Optimizer):
    """Wait for the gradients of several workers, and apply their mean.

    Args:
        opt: the optimizer that computes gradients and applies their mean.
        replicas_to_aggregate: how many gradients make a step.
        total_num_replicas: how many workers there are; as many as gradients if None. Those above are backup workers.
        variable_averages: a moving average to update after each step, or None.
        variables_to_average: the variables that it averages.
        use_locking: as for other optimizers.
        name: name of the scope.

    Example:
        >>> import anabranch as tf
        >>> step = tf.train.get_or_create_global_step()
        >>> w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        >>> sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.5), replicas_to_aggregate=1)
        >>> train = sync.minimize(tf.square(w - 1.0), global_step=step)
        >>> with tf.train.MonitoredTrainingSession(hooks=[sync.make_session_run_hook(is_chief=True)]) as session:
        ...     while session.run(step) < 1:
        ...         session.run(train)
        ...     print(session.run(w))
        1.0
    """

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(use_locking, name)
        if (variable_averages is None) != (variables_to_average is None):
            raise ValueError(
                errors.message(
                    f"variable_averages={variable_averages!r} and variables_to_average={variables_to_average!r}",
                    "both or neither",
                    "variable_averages=tf.train.ExponentialMovingAverage(0.99), variables_to_average=[...]",
                )
            )
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        self._tokens_per_step = max(self._total_num_replicas, replicas_to_aggregate)
        self._variable_averages, self._variables_to_average = variable_averages, variables_to_average
        self._gradients_applied = False
        self._global_step: Any = None
        self._sync_token_queue: Any = None
        self._chief_queue_runner: Any = None
        self.chief_init_op: Any = None
        """Run by the chief's hook when its session begins."""
        self.local_step_init_op: Any = None
        """Run by the other workers' hooks."""
        self.ready_for_local_init_op: Any = None
        """Names of the global variables that are not initialised."""

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """What the optimizer that was given computes."""
        pairs: list[tuple[Any, Any]] = self._opt.compute_gradients(*args, **kwargs)
        return pairs

    def apply_gradients(self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None) -> Any:
        """An operation that submits gradients and waits for the step that they become part of.

        Args:
            grads_and_vars: pairs of gradient and variable.
            global_step: the variable that counts steps; it must be given.
            name: name of the operation.

        Raises:
            ValueError: there is no pair, or no global step.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError(
                "Must supply at least one variable\n"
                + errors.message("no gradients", "pairs of gradient and variable", "opt.compute_gradients(loss)")
            )
        if global_step is None:
            raise ValueError(
                "Global step is required to check staleness\n"
                + errors.message("global_step=None", "a variable", "global_step=tf.train.get_or_create_global_step()")
            )
        self._global_step = global_step
        dtype = global_step.dtype.base
        local_step = cast(Any, Variable)(
            initial_value=0,
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            dtype=dtype,
            name="sync_rep_local_step",
        )
        self.local_step_init_op = local_step.assign(global_step)
        self.ready_for_local_init_op = listing.report_uninitialized_variables(listing.global_variables())
        with name_scope(None, self._name):
            submitted, taken, steps_of_accumulators = self._accumulate(pairs, local_step)
            with device(global_step.device), name_scope(""):
                self._sync_token_queue = FIFOQueue(
                    -1, dtype, shapes=((),), name="sync_token_q", shared_name="sync_token_q"
                )
                # The queue that the queue runner is said to fill: nobody uses it.
                unused = FIFOQueue(1, dtypes.int32, shapes=((),), name="dummy_queue", shared_name="dummy_queue")
            updated = self._opt.apply_gradients(taken, global_step)
            with device(global_step.device), name_scope(""):
                with control_dependencies(submitted):
                    token = self._sync_token_queue.dequeue()
                train_op = local_step.assign(token, name=name)
                with control_dependencies([updated]):
                    tokens = fill([self._tokens_per_step], global_step)
                    step_ended = self._sync_token_queue.enqueue_many((tokens,))
                if self._variable_averages is not None:
                    with control_dependencies([step_ended]):
                        step_ended = self._variable_averages.apply(self._variables_to_average)
            self._chief_queue_runner = QueueRunner(unused, [step_ended])
            self.chief_init_op = group(self.local_step_init_op, *steps_of_accumulators())
        self._gradients_applied = True
        return train_op

    def _accumulate(
        self, pairs: list[Any], local_step: Any
    ) -> tuple[list[Operation], list[tuple[Any, Any]], Callable[[], list[Operation]]]:
        """Ops that submit gradients; pairs of mean and variable; what makes the ops that set accumulators' steps."""
        submitted: list[Operation] = []
        taken: list[tuple[Any, Any]] = []
        accumulators = []
        for grad, variable in pairs:
            with device(variable.device):
                if grad is None:
                    taken.append((None, variable))
                    continue
                shared_name = variable.name + "/grad_accum"
                accumulator: Any
                if isinstance(grad, IndexedSlices):
                    accumulator = SparseConditionalAccumulator(grad.dtype, shape=(), shared_name=shared_name)
                    submitted.append(accumulator.apply_indexed_slices_grad(grad, local_step=local_step))
                    mean = accumulator.take_indexed_slices_grad(self._replicas_to_aggregate)
                elif hasattr(grad, "get_shape"):
                    accumulator = ConditionalAccumulator(
                        grad.dtype, shape=variable.get_shape(), shared_name=shared_name
                    )
                    submitted.append(accumulator.apply_grad(grad, local_step=local_step))
                    mean = accumulator.take_grad(self._replicas_to_aggregate)
                else:
                    raise ValueError(
                        "Unknown grad type!\n"
                        + errors.message(
                            f"a gradient {grad!r}", "a tensor, IndexedSlices or None", "opt.compute_gradients(loss)"
                        )
                    )
                taken.append((mean, variable))
                accumulators.append((accumulator, variable.device))

        def set_steps() -> list[Operation]:
            ops = []
            for accumulator, where in accumulators:
                with device(where):
                    ops.append(accumulator.set_global_step(self._global_step, name="SetGlobalStep"))
            return ops

        return submitted, taken, set_steps

    def _require_applied(self, what: str) -> None:
        if not self._gradients_applied:
            raise ValueError(
                f"Should be called after apply_gradients(): apply_gradient should be called before {what}\n"
                + errors.message(
                    f"{what} of an optimizer without a training op",
                    "an optimizer whose apply_gradients(), or minimize(), has been called",
                    f"train_op = sync.minimize(loss, global_step=step) before {what}",
                )
            )

    def get_chief_queue_runner(self) -> Any:
        """The queue runner whose thread, at the chief, applies gradients and hands out tokens.

        Raises:
            ValueError: there is no training op yet.
        """
        self._require_applied("get_chief_queue_runner()")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """An operation that puts the first tokens into the queue, so that workers can begin.

        Args:
            num_tokens: how many; as many as gradients make a step if -1.

        Raises:
            ValueError: there is no training op yet, or there would be too few for a step.
        """
        self._require_applied("get_init_tokens_op()")
        least = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < least:
            raise ValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {least} (needed)\n"
                + errors.message(f"num_tokens={num_tokens}", f"at least {least}", "leave num_tokens out")
            )
        if num_tokens <= 0:
            return no_op(name="no_init_tokens")
        with device(self._global_step.device), name_scope(""):
            return self._sync_token_queue.enqueue_many((fill([num_tokens], self._global_step),))

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the optimizer that was given."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Names of its slots."""
        names: list[str] = self._opt.get_slot_names(*args, **kwargs)
        return names

    def variables(self) -> list[Any]:
        """Its variables."""
        variables: list[Any] = self._opt.variables()
        return variables

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """The hook that a worker's ``tf.train.MonitoredTrainingSession`` needs.

        Args:
            is_chief: whether this worker is the chief.
            num_tokens: how many tokens there are at first, see :meth:`get_init_tokens_op`.
        """
        return _SyncReplicasHook(self, is_chief, num_tokens)


class _SyncReplicasHook(SessionRunHook):
    """Bring a worker to the global step when its session begins; at the chief, start the thread that makes steps."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer, self._is_chief, self._num_tokens = optimizer, is_chief, num_tokens
        self._init_op: Any = None
        self._tokens_op: Any = None
        self._runner: Any = None

    def begin(self) -> None:
        """Make the ops."""
        optimizer = self._optimizer
        optimizer._require_applied("SyncReplicasOptimizer's hook")
        if self._is_chief:
            self._init_op = optimizer.chief_init_op
            self._runner = optimizer.get_chief_queue_runner()
            self._tokens_op = optimizer.get_init_tokens_op(self._num_tokens)
        else:
            self._init_op = optimizer.local_step_init_op

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run them.

        Raises:
            RuntimeError: global variables are not initialised.
        """
        problem = SessionManager._not_ready(session, self._optimizer.ready_for_local_init_op)
        if problem is not None:
            raise RuntimeError(
                f"Init operations did not make model ready for SyncReplicasOptimizer local_init. {problem}"
            )
        session.run(self._init_op)
        if self._tokens_op is not None:
            session.run(self._tokens_op)
        if self._runner is not None:
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)


__all__ = ["SyncReplicasOptimizer"]
