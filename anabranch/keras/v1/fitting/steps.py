"""Training: what ``compile`` makes of a model, and one step on a batch.

In a graph, the loss, the metrics and the updates are tensors and operations of it, which :class:`GraphSteps` runs by
the session of :mod:`~anabranch.keras.v1.state`; targets and weights are placeholders, and the learning phase is fed.
Where ops run at once, :class:`EagerSteps` computes the same by a tape, as one traced function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest, version_two
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import losses, metrics, optimizers, state


class Compiled:
    """Loss and metrics of a model, one loss and a list of metrics for each output."""

    def __init__(
        self, model: Any, loss: Any, wanted: Any, loss_weights: Any, weighted_metrics: Any, modes: Any
    ) -> None:
        self.model = model
        self.names = list(model.output_names)
        self.losses: list[Any] = [
            None if one is None else losses.as_loss(one) for one in _by_output(loss, self.names, "loss")
        ]
        weights = [1.0 if w is None else w for w in _by_output(loss_weights, self.names, "loss_weights")]
        self.loss_weights = weights
        self.modes = _by_output(modes, self.names, "sample_weight_mode")
        self.metrics: list[list[Any]] = []
        self.metric_names = ["loss"]
        several = len(self.names) > 1
        self.loss_means = [
            metrics.Mean(name=f"{name}_loss") if several and one is not None else None
            for name, one in zip(self.names, self.losses, strict=True)
        ]
        self.metric_names += [mean.name for mean in self.loss_means if mean is not None]
        self.is_weighted: list[list[bool]] = []
        plain, weighed = _metrics_by_output(wanted, self.names), _metrics_by_output(weighted_metrics, self.names)
        for i, name in enumerate(self.names):
            made, flags = [], []
            for group, flag in ((plain[i], False), (weighed[i], True)):
                for one in group if self.losses[i] is not None else ():  # without a loss there are no targets
                    metric, label = self._metric(one, i, flag)
                    made.append(metric)
                    flags.append(flag)
                    label = f"{name}_{label}" if several else label
                    used = sum(label == n or n.rpartition("_")[0] == label for n in self.metric_names)
                    label = label if label not in self.metric_names else f"{label}_{used}"
                    self.metric_names.append(label)
                    if not isinstance(one, metrics.Metric):
                        metric._name = label
            self.metrics.append(made)
            self.is_weighted.append(flags)
        self.trained = [i for i, one in enumerate(self.losses) if one is not None]

    def _metric(self, wanted: Any, output: int, is_weighted: bool) -> tuple[Any, str]:
        if isinstance(wanted, metrics.Metric):
            return wanted, wanted.name
        loss, shape = self.losses[output], K.int_shape(self.model.outputs[output])
        kind = getattr(loss, "fn", None)
        label = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "metric")
        by_loss = {
            ("accuracy", "acc"): (
                metrics.binary_accuracy,
                metrics.sparse_categorical_accuracy,
                metrics.categorical_accuracy,
            ),
            ("crossentropy", "ce"): (
                metrics.binary_crossentropy,
                metrics.sparse_categorical_crossentropy,
                metrics.categorical_crossentropy,
            ),
        }
        function = short = None
        for names, (binary, sparse, categorical) in by_loss.items():
            if wanted in names if isinstance(wanted, str) else False:
                if (shape and shape[-1] == 1) or kind is losses.binary_crossentropy:
                    function = binary
                else:
                    function = sparse if kind is losses.sparse_categorical_crossentropy else categorical
                short = names[1]
        function = metrics.get(wanted) if function is None else function
        if version_two.is_everywhere():  # there a metric is called what the program calls it
            label = wanted if isinstance(wanted, str) else getattr(wanted, "name", label)
            is_weighted = False
        elif short is not None:
            label = short
        elif isinstance(wanted, str) and not isinstance(function, type):
            label = getattr(function, "name", None) or function.__name__
        if is_weighted:
            label = f"weighted_{label}"
        if isinstance(function, metrics.Metric):
            return function, label
        if isinstance(function, type):
            made = function()
            return made, label
        return metrics.MeanMetricWrapper(function, name=label), label

    # ---------------------------------------------------------------------------------------------------- computations

    def compute(
        self,
        outputs: list[Any],
        targets: list[Any],
        weights: list[Any],
        extra: list[Any],
        added: list[Any],
        report: Any = lambda metric, *args, **kwargs: metric(*args, **kwargs),
        share: Any = None,
    ) -> tuple[Any, list[Any]]:
        """The loss of a batch, and the values that are reported beside it.

        Args:
            outputs: the model's.
            targets, weights: of the outputs that have a loss; a weight may be None.
            extra: losses of regularizers and ``add_loss``.
            added: tensors of ``add_metric``, with the mean of each.
            report: what is made of a metric and a batch.
            share: of a part of a batch, its part of the rows, by which its means count.
        """
        total: Any = None
        by_share = {} if share is None else {"sample_weight": share}
        reported: list[Any] = []
        values = []
        for i, y_true, weight in zip(self.trained, targets, weights, strict=True):
            loss, y_pred = self.losses[i], outputs[i]
            mask = getattr(y_pred, "_keras_mask", None)
            whole = weight
            if mask is not None:
                mask = tf.cast(mask, y_pred.dtype.base_dtype)
                whole = mask if weight is None else losses._fitted(mask, weight) * mask
            is_mean = True
            with tf.name_scope(f"{self.names[i]}_loss"):
                if hasattr(loss, "reduction"):
                    each = losses.weighted(loss.call(y_true, y_pred), whole, losses.Reduction.NONE)
                    way = loss.reduction
                    way = losses.Reduction.SUM_OVER_BATCH_SIZE if way == losses.Reduction.AUTO else way
                    value = losses.weighted(each, None, way)
                    is_mean = way == losses.Reduction.SUM_OVER_BATCH_SIZE
                else:
                    value = loss(y_true, y_pred, sample_weight=whole)
            if K.ndim(value):
                value = tf.reduce_mean(value)
            values.append(value)
            part = value * tf.cast(share, value.dtype) if is_mean and share is not None else value
            part = part * self.loss_weights[i] if self.loss_weights[i] != 1.0 else part
            total = part if total is None else total + part
        for i, value in zip(self.trained, values, strict=True):
            mean = self.loss_means[i]
            if mean is not None:
                reported.append(report(mean, value, **by_share))
        for i, y_true, weight in zip(self.trained, targets, weights, strict=True):
            mask = getattr(outputs[i], "_keras_mask", None)
            for metric, is_weighted in zip(self.metrics[i], self.is_weighted[i], strict=True):
                used = weight if is_weighted else None
                if mask is not None:
                    number = tf.cast(mask, state.floatx())
                    used = number if used is None else losses._fitted(number, used) * number
                reported.append(report(metric, y_true, outputs[i], sample_weight=used))
        for mean, value in added:
            reported.append(report(mean, value, **by_share))
        for one in extra:
            one = tf.reduce_sum(one) if K.ndim(one) else one
            one = one * tf.cast(share, one.dtype) if share is not None else one
            total = one if total is None else total + one
        if total is None:
            raise ValueError(
                "The model cannot be compiled because it has no loss to optimize.\n"
                + errors.message("a model without a loss", "a loss", "model.compile('sgd', 'mse')")
            )
        return total, reported

    def all_metrics(self) -> list[Any]:
        """The metrics, in the order of their names."""
        means = [mean for mean in self.loss_means if mean is not None]
        return [*means, *[metric for made in self.metrics for metric in made]]


def _by_output(value: Any, names: list[str], what: str) -> list[Any]:
    if isinstance(value, dict):
        unknown = sorted(set(value) - set(names))
        if unknown:
            raise ValueError(
                f'Unknown entry in {what} dictionary: "{unknown[0]}". Only expected the following keys: {names}\n'
                + errors.message(f"{what} by the names {sorted(value)}", f"the names {names}", "model.output_names")
            )
        return [value.get(name) for name in names]
    if isinstance(value, (list, tuple)):
        if len(value) != len(names):
            raise ValueError(
                f"When passing a list as {what}, it should have one entry per model output. The model has {len(names)} "
                f"outputs, but you passed {what}={value}\n"
                + errors.message(f"{len(value)} entries", f"{len(names)}", f"a dict by the names {names}")
            )
        return list(value)
    return [value] * len(names)


def _metrics_by_output(wanted: Any, names: list[str]) -> list[list[Any]]:
    if not wanted:
        return [[] for _ in names]
    if isinstance(wanted, dict):
        groups = [wanted.get(name, []) for name in names]
    elif isinstance(wanted, (list, tuple)) and any(isinstance(one, (list, tuple)) for one in wanted):
        groups = list(wanted)
    else:
        items = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        groups = [items for _ in names]
    return [list(group) if isinstance(group, (list, tuple)) else [group] for group in groups]


def _is_fed(x: Any) -> bool:
    """Whether a batch gives an input its value; tensors that a program gave have one."""
    history = getattr(x, "_keras_history", None)
    return K.is_placeholder(x) if history is None else bool(getattr(history.layer, "is_placeholder", True))


class GraphSteps:
    """Steps as operations of the graph."""

    def __init__(self, compiled: Compiled, model: Any, target_tensors: Any = None) -> None:
        self.compiled, self.model = compiled, model
        self.inputs = [x for x in model.inputs if _is_fed(x)]
        given = _by_output(target_tensors, compiled.names, "target_tensors") if target_tensors is not None else None
        self.targets: list[Any] = []
        self.fed_targets: list[Any] = []
        for i in compiled.trained:
            if given is not None and given[i] is not None:
                self.targets.append(given[i])
                if K.is_placeholder(given[i]):
                    self.fed_targets.append(given[i])
                continue
            place = self._target(i)
            self.targets.append(place)
            self.fed_targets.append(place)
        self._weights: list[Any] | None = None
        self._losses: dict[bool, tuple[Any, list[Any]]] = {}
        self._functions: dict[Any, Any] = {}
        self.beside_tests: Any = None
        """A tensor that each step of a test gives besides, and the function that its values are handed to; or None."""
        self._added = [(metrics.Mean(name=name), value) for name, value in model._metric_tensors()]

    def _target(self, i: int) -> Any:
        output = self.model.outputs[i]
        shape = K.int_shape(output)
        if getattr(self.compiled.losses[i], "fn", None) is losses.sparse_categorical_crossentropy:
            shape = (*shape[:-1], 1)
        else:
            shape = (None,) * len(shape)
        name = f"{self.compiled.names[i]}_target"
        return K.placeholder(shape, dtype=K.dtype(output), name=name)

    def weight_places(self) -> list[Any]:
        """Placeholders of the weights of samples."""
        if self._weights is None:
            self._weights = [
                K.placeholder(
                    (None, None) if self.compiled.modes[i] == "temporal" else (None,),
                    name=f"{self.compiled.names[i]}_sample_weights",
                )
                for i in self.compiled.trained
            ]
        return self._weights

    def loss(self, weighted: bool = False) -> tuple[Any, list[Any]]:
        """The loss, and what is reported beside it."""
        if weighted not in self._losses:
            weights = self.weight_places() if weighted else [None] * len(self.targets)
            with tf.name_scope("loss"):
                self._losses[weighted] = self.compiled.compute(
                    list(self.model.outputs),
                    self.targets,
                    weights,
                    self.model._in_steps(self.model.losses),
                    self._added,
                )
        return self._losses[weighted]

    def _function(self, kind: str, weighted: bool) -> Any:
        beside = self.beside_tests[0] if kind == "test" and self.beside_tests is not None else None
        key = kind, weighted, beside
        if key not in self._functions:
            model = self.model
            places = list(self.inputs)
            outputs: list[Any] = list(model.outputs)
            updates = list(model._in_steps(model.state_updates))
            if kind != "predict":
                total, reported = self.loss(weighted)
                places += [*self.fed_targets, *(self.weight_places() if weighted else [])]
                outputs = [total, *reported, *([] if beside is None else [beside])]
            if kind == "train":
                with tf.name_scope("training"):
                    parts = model._trained_by()
                    taken = [one for optimizer, params in parts for one in optimizer.get_updates(total, params)]
                with state.frozen_layers(model._frozen_layers):
                    updates = [*taken, *model._in_steps(model.updates)]
            phase = state.symbolic_phase()
            if phase is not None:
                places.append(phase)
            with tf.name_scope("training" if kind == "train" else kind):
                call = K.Function(places, outputs, updates=updates, name=f"{kind}_function", **model._function_kwargs)
            self._functions[key] = call, phase is not None
        return self._functions[key]

    def params(self) -> list[Any]:
        """The weights that are trained."""
        return list(self.model._collected_trainable_weights)

    def run(self, kind: str, inputs: list[Any], targets: list[Any], weights: list[Any] | None) -> list[Any]:
        """One step: of ``'train'`` and ``'test'`` the loss and metrics, of ``'predict'`` the outputs."""
        weighted = weights is not None and kind != "predict"
        function, has_phase = self._function(kind, weighted)
        # A model whose inputs are tensors that have values is run without data.
        places = self.model.inputs if inputs else []
        arrays = [x for x, place in zip(inputs, places, strict=True) if any(place is p for p in self.inputs)]
        values = [*arrays, *([] if kind == "predict" else targets), *((weights or []) if weighted else [])]
        if has_phase:
            values.append(kind == "train")
        results = list(function(values))
        if kind == "test" and self.beside_tests is not None:
            self.beside_tests[1](results.pop())
        return results


class EagerSteps:
    """Steps of values, by a tape."""

    def __init__(self, compiled: Compiled, model: Any) -> None:
        self.compiled, self.model = compiled, model
        self._functions: dict[Any, Any] = {}
        self._means: dict[str, Any] = {}

    @property
    def _added(self) -> list[tuple[Any, Any]]:
        return [(mean, None) for mean in self._means.values()]

    def _mean(self, name: str) -> Any:
        if name not in self._means:
            with tf.init_scope():
                self._means[name] = metrics.Mean(name=name)
        return self._means[name]

    def _outputs(self, inputs: list[Any], training: bool) -> list[Any]:
        return nest.flatten(self.model(self.model._as_given(list(inputs)), training=training))

    def _loss(self, inputs: Any, targets: Any, weights: Any, training: bool) -> tuple[Any, list[Any]]:
        outputs = self._outputs(inputs, training)
        targets = [
            y
            if getattr(self.compiled.losses[i], "fn", None) is losses.sparse_categorical_crossentropy
            else tf.cast(y, outputs[i].dtype)
            for i, y in zip(self.compiled.trained, targets, strict=True)
        ]
        added = [(self._mean(name), value) for name, value in self.model._metric_tensors()]
        return self.compiled.compute(outputs, targets, weights or [None] * len(targets), self.model.losses, added)

    def _step(self, kind: str) -> Any:
        def predict(inputs: Any, targets: Any, weights: Any) -> Any:
            return self._outputs(inputs, False)

        def test(inputs: Any, targets: Any, weights: Any) -> Any:
            total, reported = self._loss(inputs, targets, weights, False)
            return [total, *reported]

        def train(inputs: Any, targets: Any, weights: Any) -> Any:
            parts = self.model._trained_by()
            scaling = [one for one, _ in parts if isinstance(one, optimizers.LossScaleOptimizer)]
            if scaling and len(parts) > 1:
                raise NotImplementedError(
                    errors.message(
                        f"a LossScaleOptimizer as one of {len(parts)} optimizers",
                        "optimizers that do not scale the loss",
                        "model.compile(['sgd', 'adam'], loss)",
                    )
                )
            with tf.GradientTape() as tape:
                with state.frozen_layers(self.model._frozen_layers):
                    total, reported = self._loss(inputs, targets, weights, True)
                scaled = scaling[0].get_scaled_loss(total) if scaling else total
            for (optimizer, params), gradients in zip(
                parts, tape.gradient(scaled, [params for _, params in parts]), strict=True
            ):
                if scaling:
                    gradients = optimizer.get_unscaled_gradients(gradients)
                elif hasattr(optimizer, "_clipped"):
                    gradients = [None if g is None else optimizer._clipped(g) for g in gradients]
                optimizer.apply_gradients(zip(gradients, params, strict=True))
            return [total, *reported]

        return {"predict": predict, "test": test, "train": train}[kind]

    def run(self, kind: str, inputs: list[Any], targets: list[Any], weights: list[Any] | None) -> list[Any]:
        """One step: of ``'train'`` and ``'test'`` the loss and metrics, of ``'predict'`` the outputs."""
        if kind not in self._functions:
            step = self._step(kind)
            if kind == "train":
                for optimizer, params in self.model._trained_by():
                    optimizer._create_slots(params)
            self._functions[kind] = step if self.model.run_eagerly else tf.contrib.eager.defun(step)
        places = self.model.inputs or [None] * len(inputs)
        values = [
            tf.convert_to_tensor(x, None if p is None else p.dtype.base_dtype)
            for x, p in zip(map(_floats, inputs), places, strict=True)
        ]
        results = self._functions[kind](
            values,
            [tf.convert_to_tensor(_floats(y)) for y in targets],
            weights and [tf.convert_to_tensor(w, state.floatx()) for w in weights],
        )
        return [np.asarray(x)[()] for x in results]


def _floats(x: Any) -> Any:
    return x.astype(state.floatx()) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x
