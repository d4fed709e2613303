"""Optimizers whose workers train copies of a model of their own, and meet every so many steps.

A worker's variables are local to it; beside each stands one that all share, on the parameter servers, made by the
custom getter of a variable scope. A step updates the worker's copy; every ``communication_period`` steps the copy and
the shared variable exchange something: a part of their difference (elastic averaging), their mean over all workers
(model averaging), or the gradients that were added up (accumulated gradient normalization).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.opt.wrappers import AroundOptimizer
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.train.optimizer import Optimizer

GLOBAL_VARIABLE_NAME = "global_center_variable"
LOCAL_VARIABLE_NAME = "local_center_variable"
GRAD_VARIABLE_NAME = "grad_variable"
_LOCAL, _GLOBAL = tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.GLOBAL_VARIABLES


class _CopiesGetter:
    """The custom getter of a variable scope that makes a worker's variable, and those that belong to it.

    Args:
        worker_device: name of the worker's device.
    """

    _beside = ""
    """Name of the scope of a second variable of the worker; none if empty."""
    _moves_local = True
    """Whether variables that are local without being trained are on the worker, too."""

    def __init__(self, worker_device: str) -> None:
        self._worker_device = worker_device
        self._global_map: dict[Any, Any] = {}
        self._beside_map: dict[Any, Any] = {}

    def __call__(self, getter: Any, name: str, trainable: Any, collections: Any, *args: Any, **kwargs: Any) -> Any:
        """The variable ``name`` of the worker; arguments are those of ``tf.get_variable``."""
        if not trainable:
            here = self._moves_local and _LOCAL in (collections or ())
            with tf.device(self._worker_device if here else ""):
                return getter(name, *args, trainable=trainable, collections=collections, **kwargs)
        with tf.device(self._worker_device):
            own = getter(name, *args, trainable=True, collections=[_LOCAL], **kwargs)
        if kwargs.get("reuse") is True:
            return own
        shared = self._shared(getter, f"{GLOBAL_VARIABLE_NAME}/{name}", own, *args, **kwargs)
        self._global_map.update(zip(_parts(own), _parts(shared), strict=True))
        if self._beside:
            with tf.device(self._worker_device):
                beside = getter(f"{self._beside}/{name}", *args, trainable=False, collections=[_LOCAL], **kwargs)
            self._beside_map.update(zip(_parts(own), _parts(beside), strict=True))
        return own

    def _shared(self, getter: Any, name: str, own: Any, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, trainable=False, collections=[_GLOBAL], **kwargs)


def _parts(variable: Any) -> list[Any]:
    return [variable] if isinstance(variable, tf.Variable) else list(variable)


@public("contrib.opt.ElasticAverageCustomGetter")
class ElasticAverageCustomGetter(_CopiesGetter):
    """Custom getter of the variables of :class:`ElasticAverageOptimizer`.

    A trainable variable is the worker's own and is local; it gets a shared one, ``global_center_variable/...``, and the
    worker's picture of that, ``local_center_variable/...``. Where shared ones are is said by the device function
    around, such as ``tf.train.replica_device_setter``.

    Args:
        worker_device: name of the worker's device.

    Example:
        >>> import anabranch as tf
        >>> getter = tf.contrib.opt.ElasticAverageCustomGetter(worker_device="/job:worker/task:0")
        >>> with tf.Graph().as_default(), tf.variable_scope("", custom_getter=getter):
        ...     w = tf.get_variable("w", [2])
        ...     [v.name for v in tf.global_variables()], [v.name for v in tf.local_variables()]
        (['global_center_variable/w:0'], ['w:0', 'local_center_variable/w:0'])
    """

    _beside = LOCAL_VARIABLE_NAME

    @property
    def _local_map(self) -> dict[Any, Any]:
        return self._beside_map


@public("contrib.opt.ModelAverageCustomGetter")
class ModelAverageCustomGetter(_CopiesGetter):
    """Custom getter of the variables of :class:`ModelAverageOptimizer`.

    A trainable variable is the worker's own and is local; it gets a shared one, ``global_center_variable/...``, which
    starts with its value.

    Args:
        worker_device: name of the worker's device.
    """

    def _shared(self, getter: Any, name: str, own: Any, *args: Any, **kwargs: Any) -> Any:
        made = [
            tf.Variable(part.initialized_value(), name=f"{GLOBAL_VARIABLE_NAME}/{part.op.name}", trainable=False)
            for part in _parts(own)
        ]
        return made[0] if isinstance(own, tf.Variable) else made

    @property
    def _local_2_global(self) -> dict[Any, Any]:
        return self._global_map


@public("contrib.opt.AGNCustomGetter")
class AGNCustomGetter(_CopiesGetter):
    """Custom getter of the variables of :class:`AGNOptimizer`.

    A trainable variable is the worker's own and is local; it gets a shared one, ``global_center_variable/...``, and one
    of the worker for sums of gradients, ``grad_variable/...``.

    Args:
        worker_device: name of the worker's device.
    """

    _beside = GRAD_VARIABLE_NAME
    _moves_local = False

    @property
    def _grad_map(self) -> dict[Any, Any]:
        return self._beside_map


class _Meeting(AroundOptimizer):
    """An optimizer of a worker's variables, which meet the shared ones every so many steps."""

    def __init__(self, opt: Optimizer, num_worker: int, getter: Any, period: int, use_locking: bool, name: str) -> None:
        super().__init__(opt, use_locking, name)
        self._num_worker, self._period = num_worker, period
        self._global_map = getter._global_map
        self._local_step = tf.get_variable("local_step", initializer=0, trainable=False, collections=[_LOCAL])

    def _apply_locally(self, grads_and_vars: Any) -> Any:
        """Update the worker's variables; what the optimizer makes for itself is local, as they are."""

        def local(next_creator: Any, **arguments: Any) -> Any:
            collections = arguments.get("collections") or [_GLOBAL]
            arguments["collections"] = list(dict.fromkeys(_LOCAL if one == _GLOBAL else one for one in collections))
            return next_creator(**arguments)

        with tf.variable_creator_scope(local):
            return self._opt.apply_gradients(grads_and_vars)

    def _when_due(self, after: Sequence[Any], meet: Callable[[], Any]) -> Any:
        """Count a step that has made some operations, and meet if it is time to."""
        with tf.control_dependencies(list(after)):
            step = tf.assign_add(self._local_step, 1, name="local_step_update")
        with tf.control_dependencies([step, *after]):
            return tf.cond(tf.equal(tf.mod(step, self._period), 0), meet, tf.no_op)

    def _shared(self, variable: Any) -> Any:
        try:
            return self._global_map[variable]
        except KeyError:
            raise ValueError(
                errors.message(
                    f"the variable {variable.name!r}, which has no shared one",
                    "variables that the optimizer's custom getter made",
                    "tf.variable_scope('', custom_getter=getter) around tf.get_variable",
                )
            ) from None

    def _start(self, own: Sequence[Any]) -> list[Any]:
        if not own:
            raise ValueError(
                "The list of local_variables should not be empty\n"
                + errors.message(
                    "no trainable variable", "variables of the custom getter", "tf.get_variable in its variable scope"
                )
            )
        return [_assigned(variable, self._shared(variable).read_value()) for variable in own]


def _assigned(variable: Any, value: Any) -> Any:
    with tf.device(variable.device):
        return tf.assign(variable, value)


def _counted(global_step: Any) -> list[Any]:
    if global_step is None:
        return []
    with tf.colocate_with(global_step):
        return [tf.assign_add(global_step, 1)]


class _StartHook(tf.train.SessionRunHook):
    """Let a worker begin where the shared variables are."""

    def __init__(self, init_op: Callable[[], Any]) -> None:
        self._init_op = init_op

    def begin(self) -> None:
        self._variable_init_op = self._init_op()

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._variable_init_op)


@public("contrib.opt.ElasticAverageOptimizer")
class ElasticAverageOptimizer(_Meeting):
    """Elastic averaging SGD (Zhang, Choromanska and LeCun, 2015): workers explore around variables that they share.

    Every ``communication_period`` steps of a worker each of its variables and the shared one move towards each other
    by ``moving_rate`` of their difference, and ``global_step`` counts one.

    Args:
        opt: updates the worker's variables.
        num_worker: how many workers there are.
        ea_custom_getter: the :class:`ElasticAverageCustomGetter` that made the variables.
        communication_period: steps from one exchange to the next.
        moving_rate: share of the difference; ``0.9 / communication_period / num_worker`` if None.
        rho: weight of the squared distance from the shared variables in the loss of :meth:`compute_gradients`;
            ``moving_rate`` by the learning rate if None.
        use_locking: kept for compatibility.
        synchronous: whether workers begin when all have been initialised.
        name: of the operations.

    Raises:
        ValueError: ``rho`` is None, and ``opt`` has no learning rate.
    """

    BETA = 0.9

    def __init__(
        self,
        opt: Optimizer,
        num_worker: int,
        ea_custom_getter: ElasticAverageCustomGetter,
        communication_period: int = 10,
        moving_rate: float | None = None,
        rho: float | None = None,
        use_locking: bool = True,
        synchronous: bool = False,
        name: str = "ElasticAverageOptimizer",
    ) -> None:
        super().__init__(opt, num_worker, ea_custom_getter, communication_period, use_locking, name)
        self._local_map = ea_custom_getter._local_map
        self._synchronous = synchronous
        self._moving_rate = self.BETA / communication_period / num_worker if moving_rate is None else moving_rate
        if rho is None:
            rate = getattr(opt, "_learning_rate", getattr(opt, "_lr", None))
            if rate is None:
                raise ValueError(
                    errors.message(f"a {type(opt).__name__}, whose learning rate is not known", "rho", "rho=0.0")
                )
            rho = self._moving_rate / (rate() if callable(rate) else rate)
        self._rho = rho

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Gradients of the loss and ``rho`` times half the squared distance from the shared variables.

        Arguments are those of ``tf.train.Optimizer.compute_gradients``.
        """
        own = list(var_list or tf.trainable_variables())
        distances = [tf.nn.l2_loss(tf.subtract(v, self._local_map[v])) for part in own for v in _parts(part)]
        return self._opt.compute_gradients(loss + self._rho * tf.add_n(distances), own, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Update the worker's variables, and every ``communication_period`` steps the shared ones."""
        pairs = list(grads_and_vars)
        own = [variable for gradient, variable in pairs if gradient is not None]

        def meet() -> Any:
            done = []
            for variable in own:
                shared, picture = self._shared(variable), self._local_map[variable]
                seen = _assigned(picture, shared.read_value())
                with tf.control_dependencies([seen]), tf.device(variable.device):
                    part = self._moving_rate * (variable.read_value() - picture.read_value())
                    done.append(tf.assign_sub(variable, part))
                with tf.device(shared.device):
                    done.append(tf.assign_add(shared, part))
            return tf.group(*done, *_counted(global_step))

        return self._when_due([self._apply_locally(pairs)], meet)

    def get_init_op(self, task_index: int) -> Any:
        """An operation that gives a worker the shared variables' values, and waits for the others if synchronous."""
        own = tf.trainable_variables()
        done = [*self._start(own), *[_assigned(self._local_map[v], self._shared(v).read_value()) for v in own]]
        start = tf.group(*done)
        if not self._synchronous:
            return start
        queues = [
            tf.FIFOQueue(self._num_worker, [tf.bool], shapes=[[]], shared_name=f"variable_init_sync_queue{i}")
            for i in range(self._num_worker)
        ]
        with tf.control_dependencies([start]):
            told = [queue.enqueue(False) for i, queue in enumerate(queues) if i != task_index]
        with tf.control_dependencies(told):
            heard = queues[task_index].dequeue_many(len(queues) - 1)
        return tf.group(start, *told, heard)

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> Any:
        """A hook that runs :meth:`get_init_op` in a new session; give it to each worker's session."""
        return _StartHook(lambda: self.get_init_op(task_index))

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Any:
        """A saver that saves the shared variables under the names of the worker's.

        Args:
            var_list: variables by name, or a list of them; all trainable ones if None.
            name: of the saver.
            **kwargs: arguments of ``tf.train.Saver``.

        Raises:
            RuntimeError: the custom getter has made no variable.
        """
        if not self._global_map:
            raise RuntimeError(
                "global_center_variable is empty, please make sure this is called after model created and "
                "ElasticAverageCustomGetter is used when declaring you model\n"
                + errors.message("no shared variables", "those of the getter", "build the model, then swapping_saver()")
            )
        return tf.train.Saver(_swapped(var_list, self._global_map), name=name, **kwargs)


def _swapped(var_list: Any, by_own: dict[Any, Any]) -> dict[str, Any]:
    given = tf.trainable_variables() if var_list is None else var_list
    if not isinstance(given, dict):
        by_name: dict[str, Any] = {}
        for variable in given:
            info = getattr(variable, "_save_slice_info", None)
            if info is None:
                by_name[variable.op.name] = variable
            else:
                by_name.setdefault(info.full_name, []).append(variable)
        given = by_name
    return {
        key: [by_own.get(part, part) for part in _parts(one)]
        if not isinstance(one, tf.Variable)
        else by_own.get(one, one)
        for key, one in given.items()
    }


@public("contrib.opt.ModelAverageOptimizer")
class ModelAverageOptimizer(_Meeting):
    """Model averaging: every ``interval_steps`` steps all workers wait for each other and go on from their mean.

    The chief writes the mean to the shared variables and counts ``global_step``; each worker then takes it.

    Args:
        opt: updates the worker's variables.
        num_worker: how many workers there are.
        is_chief: whether this worker is the chief.
        ma_custom_getter: the :class:`ModelAverageCustomGetter` that made the variables.
        interval_steps: steps from one mean to the next.
        use_locking: kept for compatibility.
        name: of the operations.
    """

    def __init__(
        self,
        opt: Optimizer,
        num_worker: int,
        is_chief: bool,
        ma_custom_getter: ModelAverageCustomGetter,
        interval_steps: int = 100,
        use_locking: bool = True,
        name: str = "ModelAverageOptimizer",
    ) -> None:
        super().__init__(opt, num_worker, ma_custom_getter, interval_steps, use_locking, name)
        self._is_chief = is_chief

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Update the worker's variables, and every ``interval_steps`` steps take the mean of all workers'.

        Raises:
            ValueError: there are no pairs, or no global step.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError(
                "Must supply at least one variable\n"
                + errors.message("no pairs", "pairs of gradient and variable", "optimizer.compute_gradients(loss)")
            )
        if global_step is None:
            raise ValueError(
                "Global step is required\n"
                + errors.message("global_step=None", "a variable", "global_step=tf.train.get_or_create_global_step()")
            )
        own = [variable for gradient, variable in pairs if gradient is not None]
        shared = [self._shared(variable) for variable in own]
        accumulators = []
        with tf.name_scope(self._name + "/global"):
            with tf.colocate_with(global_step):
                tokens = tf.FIFOQueue(-1, [tf.bool], shapes=[[]], shared_name="sync_queue")
            for variable in shared:
                with tf.device(variable.device):
                    accumulators.append(
                        tf.ConditionalAccumulator(
                            variable.dtype.base_dtype,
                            shape=variable.shape,
                            shared_name=variable.name + "/var_accum",
                        )
                    )

        def meet() -> Any:
            brought, means = [], []
            for variable, center, accumulator in zip(own, shared, accumulators, strict=True):
                with tf.device(center.device):
                    brought.append(accumulator.apply_grad(variable.read_value(), local_step=global_step.read_value()))
            with tf.control_dependencies(brought), tf.device(global_step.device):
                if self._is_chief:
                    for center, accumulator in zip(shared, accumulators, strict=True):
                        with tf.device(center.device):
                            means.append(tf.assign(center, accumulator.take_grad(self._num_worker)))
                    with tf.control_dependencies([*means]):
                        counted = _counted(global_step)
                    with tf.control_dependencies([*means, *counted]):
                        met = tokens.enqueue_many(tf.fill([self._num_worker - 1], False))
                else:
                    met = tokens.dequeue()
            with tf.control_dependencies([met]):
                return tf.group(*self._start(own))

        done = self._when_due([self._apply_locally(pairs)], meet)
        step = [accumulator.set_global_step(global_step, name="SetGlobalStep") for accumulator in accumulators]
        self._chief_init_op = tf.group(*step)
        return done

    def get_init_op(self) -> Any:
        """An operation that gives a worker the shared variables' values."""
        return tf.group(*self._start(tf.trainable_variables()))

    def make_session_run_hook(self) -> Any:
        """A hook that lets a worker begin with the shared variables' values; give it to each worker's session."""
        return _StartHook(self.get_init_op)


@public("contrib.opt.AGNOptimizer")
class AGNOptimizer(_Meeting):
    """Accumulated gradient normalization (Hermans, Spanakis and Moeckel, 2017).

    A worker adds up the gradients of ``communication_period`` steps, which it applies to its own variables as well;
    then their mean is applied to the shared variables, and the worker goes on from these.

    Args:
        optimizer: updates both.
        num_worker: how many workers there are.
        custom_getter: the :class:`AGNCustomGetter` that made the variables.
        communication_period: steps from one exchange to the next.
        use_locking: kept for compatibility.
        name: of the operations.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        num_worker: int,
        custom_getter: AGNCustomGetter,
        communication_period: int = 10,
        use_locking: bool = True,
        name: str = "AGNOptimizer",
    ) -> None:
        super().__init__(optimizer, num_worker, custom_getter, communication_period, use_locking, name)
        self._grad_map = custom_getter._grad_map

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Update the worker's variables, and every ``communication_period`` steps the shared ones."""
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        own = [variable for _, variable in pairs]
        shared = [self._shared(variable) for variable in own]
        sums = [self._grad_map[variable] for variable in own]
        added = [
            tf.assign_add(total, tf.convert_to_tensor(gradient))
            for (gradient, _), total in zip(pairs, sums, strict=True)
        ]

        def meet() -> Any:
            means = [total.read_value() / self._period for total in sums]
            applied = self._opt.apply_gradients(zip(means, shared, strict=True))
            with tf.control_dependencies([applied]):
                taken = self._start(own)
                cleared = [_assigned(total, tf.zeros_like(total)) for total in sums]
                return tf.group(*taken, *cleared, *_counted(global_step))

        return self._when_due([self._apply_locally(pairs), *added], meet)

    def get_init_op(self, task_index: int) -> Any:
        """An operation that gives a worker the shared variables' values, and sums of zero."""
        own = tf.trainable_variables()
        sums = [self._grad_map[variable] for variable in own]
        return tf.group(*self._start(own), *[_assigned(total, tf.zeros_like(total)) for total in sums])

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> Any:
        """A hook that runs :meth:`get_init_op` in a new session; give it to each worker's session."""
        return _StartHook(lambda: self.get_init_op(task_index))
