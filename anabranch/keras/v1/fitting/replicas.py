"""Training on the replicas of a strategy: a model that is compiled in the scope of one.

Each replica gets its part of a batch, calls the model on its device and computes loss and gradients; the optimizer
sums the gradients of all (:mod:`anabranch.distribute.strategy`), and metrics, of which each replica has variables of
its own, are read as one. The loss of a replica counts by its share of the rows, so that a step is that of one device
with the whole batch, whatever its size; statistics of batches are those of each replica's rows, and their averages the
mean.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.distribute.values import PerReplica
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.fitting.steps import Compiled, GraphSteps
from anabranch.keras.v1.layer import Layer


def check(strategy: Any) -> None:
    """Refuse a strategy of several processes.

    Raises:
        UnimplementedError: it is one.
    """
    if strategy.num_replicas_in_sync > len(strategy.extended.worker_devices):
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"a model compiled in the scope of {type(strategy).__name__} of several processes",
                "a strategy of this process",
                "strategy.experimental_run(step, iterator) with a step that calls the model's layers",
            ),
        )


class ReplicaSteps(GraphSteps):
    """Steps of which each replica of a strategy computes a part.

    Args:
        compiled: loss, metrics and optimizer.
        model: the model.
        strategy: whose replicas.

    Raises:
        ValueError: a weight of the model was made outside the scope of the strategy.
    """

    def __init__(self, compiled: Compiled, model: Any, strategy: Any) -> None:
        for variable in model.weights:
            if not strategy.extended.variable_created_in_scope(variable):
                raise ValueError(
                    f"Variable ({variable.name}) was not created in the distribution strategy scope of ({strategy}). "
                    "It is most likely due to not all layers or the model or optimizer being created outside the "
                    "distribution strategy scope.\n"
                    + errors.message(
                        f"a model compiled in a strategy's scope, whose weight {variable.name!r} was made outside",
                        "model and compile in one scope",
                        "with strategy.scope(): model = ...; model.compile(...)",
                    )
                )
        super().__init__(compiled, model)
        self._strategy = strategy
        self._count = strategy.num_replicas_in_sync
        for is_there, what, instead in (
            (len(self.inputs) < len(model.inputs), "an input that is a tensor", "tf.keras.Input(shape), and fit(data)"),
            (bool(model.state_updates), "a recurrent layer that keeps its state between batches", "stateful=False"),
        ):
            if is_there:
                given = f"{what}, of a model on {self._count} replicas"
                raise errors.UnimplementedError(
                    None, None, errors.message(given, "a model whose batches depend on what is fed alone", instead)
                )

        self._own_losses = any(one._losses for one in (model, *model.submodules) if isinstance(one, Layer))

    def _parts(self, place: Any) -> list[Any]:
        """The rows of a batch for each replica, in order; the numbers of rows differ by one at most."""
        whole = tf.shape(place)[0]
        ends = [whole * number // self._count for number in range(self._count + 1)]
        parts = [place[begin:end] for begin, end in itertools.pairwise(ends)]
        for part in parts:
            part.set_shape([None, *K.int_shape(place)[1:]])
        return parts

    def _function(self, kind: str, weighted: bool) -> Any:
        key = kind, weighted
        if key not in self._functions:
            model = self.model
            # Whole batches come by places of their own: the model's inputs have a history that calls would prolong.
            inputs = [K.placeholder(K.int_shape(x), dtype=K.dtype(x)) for x in self.inputs]
            targets = [] if kind == "predict" else list(self.fed_targets)
            weights = self.weight_places() if weighted and kind != "predict" else []
            with contextlib.ExitStack() as scopes:
                scopes.enter_context(tf.name_scope("training" if kind == "train" else kind))
                scopes.enter_context(self._strategy.scope())
                scopes.enter_context(_unnoticed(model))
                outputs, updates = self._on_replicas(kind, inputs, targets, weights)
                places = [*inputs, *targets, *weights]
                phase = state.symbolic_phase()
                if phase is not None:
                    places.append(phase)
                call = K.Function(places, outputs, updates=updates, name=f"{kind}_function", **model._function_kwargs)
            self._functions[key] = call, phase is not None
        return self._functions[key]

    def _on_replicas(self, kind: str, inputs: Any, targets: Any, weights: Any) -> tuple[list[Any], list[Any]]:
        """What a step reports, and what it does."""
        strategy, model = self._strategy, self.model
        updates, losses = _News(model._all_updates), _News(model._all_losses)
        added = _News(lambda: [value for _, value in model._metric_tensors()])
        takes_phase = "training" in model._call_arguments and not model._is_graph_network
        phase = {"training": state.learning_phase()} if takes_phase else {}
        reported: list[Any] = []

        def step(inputs: Any, targets: Any, weights: Any, share: Any) -> Any:
            with state.frozen_layers(model._frozen_layers):
                outputs = nest.flatten(model(model._as_given(list(inputs)), **phase))
                moved = updates.found()
            if kind == "predict":
                return outputs, []
            reported.clear()
            means = {id(value): name for name, value in model._metric_tensors()}
            total, done = self.compiled.compute(
                outputs,
                list(targets),
                list(weights) or [None] * len(targets),
                losses.found(),
                [(self._mean(means[id(value)]), value) for value in added.found()],
                report=lambda metric, *args, **kwargs: _update(metric, reported, *args, **kwargs),
                share=share,
            )
            if kind == "train":
                for optimizer, params in self.model._trained_by():
                    done += optimizer.get_updates(loss=total, params=params)
                done += moved
            return [total], done

        split = [self._parts(place) for place in (*inputs, *targets, *weights)]
        whole = tf.cast(tf.shape(inputs[0])[0], tf.float32)
        shares = PerReplica([tf.cast(tf.shape(part)[0], tf.float32) / whole for part in split[0]])
        parts = [PerReplica(part) for part in split]
        begin, end = len(inputs), len(inputs) + len(targets)
        own = parts[:begin], parts[begin:end], parts[end:], shares
        results, done = strategy.experimental_run_v2(step, args=own)
        done = [part for one in done for part in strategy.experimental_local_results(one)]
        if kind == "predict":
            return [tf.concat(strategy.experimental_local_results(one), 0) for one in results], []
        total = strategy.reduce(tf.distribute.ReduceOp.SUM, results[0])
        with tf.control_dependencies(done):
            return [total, *[tf.identity(metric.result()) for metric in reported]], done

    def _mean(self, name: str) -> Any:
        return next(mean for mean, _ in self._added if mean.name == name)

    def run(self, kind: str, inputs: list[Any], targets: list[Any], weights: list[Any] | None) -> list[Any]:
        """One step: of ``'train'`` and ``'test'`` the loss and metrics, of ``'predict'`` the outputs."""
        weighted = weights is not None and kind != "predict"
        function, has_phase = self._function(kind, weighted)
        takes_means = self._added or self._own_losses or (kind == "train" and self.model.updates)
        if len(inputs[0]) < self._count and takes_means:
            raise ValueError(
                errors.message(
                    f"a batch of {len(inputs[0])} rows on {self._count} replicas, for a model that takes means of rows",
                    "a row for each replica, or more",
                    "fit(x[:n], y[:n], batch_size=...) with batches that share the rows evenly",
                )
            )
        values = [*inputs, *([] if kind == "predict" else targets), *((weights or []) if weighted else [])]
        if has_phase:
            values.append(kind == "train")
        return list(function(values))


@contextlib.contextmanager
def _unnoticed(model: Any) -> Iterator[None]:
    """A block after which a model has the losses, updates and metrics that it had: those of calls in it are no more."""
    layers = [one for one in (model, *model.submodules) if isinstance(one, Layer)]
    lists = [kept for layer in layers for kept in (layer._losses, layer._updates, layer._metrics)]
    before = [list(kept) for kept in lists]
    try:
        yield
    finally:
        for kept, items in zip(lists, before, strict=True):
            kept[:] = items


class _News:
    """What a list of a model has got since."""

    def __init__(self, listed: Any) -> None:
        self._listed = listed
        self._known = {id(item) for item in listed()}

    def found(self) -> list[Any]:
        """The items that are new, each once."""
        items = [item for item in self._listed() if id(item) not in self._known]
        self._known.update(map(id, items))
        return items


def _update(metric: Any, reported: list[Any], *args: Any, **kwargs: Any) -> Any:
    reported.append(metric)
    with tf.name_scope(metric.name):
        return metric.update_state(*args, **kwargs)
