"""Models: networks that are compiled and trained."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import optimizers, saving, state
from anabranch.keras.v1.fitting import batches as batch_sources
from anabranch.keras.v1.fitting import model_data, replicas, rounds
from anabranch.keras.v1.fitting import steps as step_kinds
from anabranch.keras.v1.fitting.callback_list import CallbackList
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.network import Network
from anabranch.keras.v1.nodes import single
from anabranch.keras.v1.old_spellings import modern


@registry.add()
class Model(Network):
    """A model: of inputs and outputs, ``Model(inputs, outputs)``, or one of your own that defines ``call``.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_dim=2, kernel_initializer="zeros")])
        ...     model.compile(tf.train.GradientDescentOptimizer(0.5), "mse", metrics=["mae"])
        ...     history = model.fit([[1.0, 0.0]], [[1.0]], verbose=0, epochs=2)
        ...     history.history["mae"]
        [1.0, 0.0]
    """

    def _prepare(self) -> None:
        if "_layers" in self.__dict__:
            return
        super()._prepare()
        for name in ("optimizer", "loss", "_compiled", "_steps", "history", "_eager"):
            object.__setattr__(self, name, None)
        self.stop_training = False
        self._compile_arguments: dict[str, Any] = {}
        self._strategy: Any = None

    # --------------------------------------------------------------------------------------------------------- compile

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        sample_weight_mode: Any = None,
        weighted_metrics: Any = None,
        target_tensors: Any = None,
        distribute: Any = None,
        **kwargs: Any,
    ) -> None:
        """Say how the model is trained.

        Args:
            optimizer: its name, or one of ``tf.keras`` or ``tf.train``; a list for a model that says which of its
                parts each trains.
            loss: a loss for all outputs, or one for each, by order or name.
            metrics: what is reported, for all outputs or each.
            loss_weights: factors of the losses.
            sample_weight_mode: ``'temporal'`` for weights ``[batch, time]``.
            weighted_metrics: metrics that use the weights of samples.
            target_tensors: tensors to use as targets.
            distribute: must be None.
            run_eagerly: where ops run at once, do not trace a step.
        """
        if distribute is not None:
            raise ValueError(errors.message("compile(distribute=...)", "None: one replica", "leave it out"))
        strategy = tf.distribute.get_strategy()
        replicas.check(strategy)
        self._strategy = strategy if strategy.num_replicas_in_sync > 1 else None
        self._run_eagerly = bool(kwargs.pop("run_eagerly", False))
        self._function_kwargs = {name: kwargs.pop(name) for name in ("feed_dict", "fetches") if name in kwargs}
        for name in ("cloning", "experimental_run_tf_function", "options", "run_metadata"):
            kwargs.pop(name, None)
        if kwargs:
            raise ValueError(
                f"Invalid keyword arguments: {sorted(kwargs)}\n"
                + errors.message(f"compile({sorted(kwargs)[0]}=...)", "arguments of compile", "leave them out")
            )
        if isinstance(optimizer, (list, tuple)):
            if type(self)._trained_by is Model._trained_by:
                raise ValueError(
                    errors.message(
                        f"{len(optimizer)} optimizers of {self.name}, a {type(self).__name__}",
                        "one optimizer",
                        "tf.keras.experimental.WideDeepModel, which takes two",
                    )
                )
            object.__setattr__(self, "optimizer", [optimizers.get(one) for one in optimizer])
            self._children.update({f"optimizer{i}": one for i, one in enumerate(self.optimizer)})
        else:
            object.__setattr__(self, "optimizer", optimizers.get(optimizer))
            self._children["optimizer"] = self.optimizer
        object.__setattr__(self, "loss", loss)
        self._compile_arguments = {
            "loss": loss,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
            "sample_weight_mode": sample_weight_mode,
            "loss_weights": loss_weights,
        }
        self._target_tensors = target_tensors
        object.__setattr__(self, "_compiled", None)
        object.__setattr__(self, "_steps", None)
        self.sample_weight_mode, self.loss_weights = sample_weight_mode, loss_weights
        if self.inputs is not None:
            self._finish_compile()

    def _finish_compile(self) -> None:
        arguments = self._compile_arguments
        self._collected_trainable_weights = self.trainable_weights
        self._frozen_layers = frozenset(
            id(one) for one in (self, *self.submodules) if not getattr(one, "trainable", True)
        )
        home = self.outputs[0].graph if not state.is_eager() and hasattr(self.outputs[0], "graph") else None
        with contextlib.ExitStack() as scopes:
            if home is not None:
                scopes.enter_context(home.as_default())
            if self._strategy is not None:
                scopes.enter_context(self._strategy.scope())
            made = step_kinds.Compiled(
                self,
                arguments["loss"],
                arguments["metrics"],
                arguments["loss_weights"],
                arguments["weighted_metrics"],
                arguments["sample_weight_mode"],
            )
            object.__setattr__(self, "_compiled", made)
            if state.is_eager():
                object.__setattr__(self, "_steps", step_kinds.EagerSteps(made, self))
            elif self._strategy is not None:
                object.__setattr__(self, "_steps", replicas.ReplicaSteps(made, self, self._strategy))
            else:
                object.__setattr__(self, "_steps", step_kinds.GraphSteps(made, self, self._target_tensors))
                if made.trained or self.losses:
                    self._steps.loss()

    def _trained_by(self) -> list[tuple[Any, list[Any]]]:
        """Each optimizer with the weights that it changes."""
        return [(self.optimizer, list(self._collected_trainable_weights))]

    def _metric_tensors(self) -> list[tuple[str, Any]]:
        of_layers: list[tuple[str, Any]] = []
        for layer in self._sublayers:
            if isinstance(layer, Model):
                of_layers += layer._metric_tensors()
            elif isinstance(layer, Layer):
                of_layers += layer._metrics
        # What a network adds stands behind its layers, as a layer of its own does in TensorFlow.
        if self._is_graph_network:
            return [*of_layers, *self._metrics]
        found = [*self._metrics, *of_layers]
        computed = {id(value) for value in self._in_steps([value for _, value in found])}
        return [item for item in found if id(item[1]) in computed]

    def _ready(self, kind: str, inputs: Any) -> None:
        if kind != "predict" and self.optimizer is None:
            raise RuntimeError(
                "You must compile your model before training/testing. Use `model.compile(optimizer, loss)`.\n"
                + errors.message("a model that is not compiled", "a compiled model", "model.compile('sgd', 'mse')")
            )
        if self.inputs is None:
            self._set_inputs(inputs)
        if self._compiled is None and kind != "predict":
            self._finish_compile()
        if self._steps is None:
            empty = _Uncompiled(self)
            made: Any = step_kinds.EagerSteps if state.is_eager() else step_kinds.GraphSteps
            object.__setattr__(self, "_steps", made(empty, self))
            object.__setattr__(self, "_function_kwargs", getattr(self, "_function_kwargs", {}))

    def _set_inputs(self, arrays: Any) -> None:
        """Learn from a batch what a model of one's own takes and gives."""
        places = []
        for x in nest.flatten(arrays):
            if isinstance(x, tf.Tensor) and not state.is_eager():
                places.append(x)
                continue
            text = x.dtype.kind in "OSU"
            kind = "string" if text else x.dtype.name if x.dtype in (np.int32, np.int64) else state.floatx()
            shape = (None, *np.shape(x)[1:])
            # A model of one's own is no network: its layers have no calls that `layer.output` could mean.
            with state.graph().as_default():
                places.append(tf.placeholder(kind, shape, name=f"input_{state.get_uid('input')}"))
        # What a `call` says as the default of `training` is for calls by the program; a step tells its own.
        phase = (
            {"training": state.learning_phase()} if "training" in self._call_arguments and not state.is_eager() else {}
        )
        with contextlib.ExitStack() as scopes:
            scopes.enter_context(state.graph().as_default())
            if self._strategy is not None:
                scopes.enter_context(self._strategy.scope())
            object.__setattr__(self, "_input_keys", sorted(arrays) if isinstance(arrays, dict) else None)
            outputs = nest.flatten(self(self._as_given(places), **phase))
        self.input_names = self._input_keys or [f"input_{i + 1}" for i in range(len(places))]
        self.output_names = [f"output_{i + 1}" for i in range(len(outputs))]
        object.__setattr__(self, "inputs", places)
        object.__setattr__(self, "outputs", outputs)

    def _as_given(self, inputs: list[Any]) -> Any:
        """Inputs in the form in which `call` takes them: one, a list, or a dict if the first batch was one."""
        keys = getattr(self, "_input_keys", None)
        return single(inputs) if keys is None else dict(zip(keys, inputs, strict=True))

    @property
    def run_eagerly(self) -> bool:
        """Whether a step is run op by op, where ops run at once."""
        return getattr(self, "_run_eagerly", False)

    @run_eagerly.setter
    def run_eagerly(self, value: bool) -> None:
        self._run_eagerly = value

    @property
    def metrics_names(self) -> list[str]:
        """Names of what training reports."""
        own = ["loss"] if self._compiled is None else self._compiled.metric_names
        return [*own, *[name for name, _ in self._metric_tensors()]]

    @property
    def metrics(self) -> list[Any]:
        """The metrics."""
        made = self._compiled.metrics if self._compiled is not None else []
        return [*[metric for group in made for metric in group], *self._added_means()]

    def _added_means(self) -> list[Any]:
        return [mean for mean, _ in getattr(self._steps, "_added", [])]

    @property
    def total_loss(self) -> Any:
        """The loss, a tensor of the graph."""
        return self._steps.loss()[0]

    @property
    def targets(self) -> list[Any]:
        """The tensors of the targets."""
        return list(self._steps.targets)

    @property
    def sample_weights(self) -> list[Any]:
        """The tensors of the weights of samples."""
        return list(self._steps.weight_places())

    def reset_metrics(self) -> None:
        """Begin the metrics anew."""
        for metric in (*(self._compiled.all_metrics() if self._compiled is not None else ()), *self._added_means()):
            metric.reset_states()

    # --------------------------------------------------------------------------------------------------------- batches
    def _run(self, kind: str, batch: Any) -> list[Any]:
        inputs, targets = batch[0], batch[1]
        return self._steps.run(kind, inputs, targets, batch[2] if len(batch) > 2 else None)

    # ----------------------------------------------------------------------------------------------------------- loops

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_freq: Any = 1,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Train the model.

        Args:
            x, y: inputs and targets: arrays, lists of them, or dicts by name; or in ``x`` alone a dataset, a
            generator or a
                `Sequence` of batches.
            batch_size: samples in a step; 32 if None.
            epochs, initial_epoch: the number after the last epoch, and the first.
            verbose: 0 prints nothing, 1 a bar, 2 a line for each epoch.
            callbacks: what is called between steps.
            validation_split: share of the samples, from the end, that is kept for validation.
            validation_data: ``(x, y)`` or ``(x, y, weights)``, or batches, to validate on.
            shuffle: a new order in each epoch; ``'batch'`` moves whole batches.
            class_weight: weight of each class.
            sample_weight: weight of each sample.
            steps_per_epoch, validation_steps: number of steps; all if None.
            validation_freq: number of epochs between validations, or a list of epochs.
            max_queue_size, workers, use_multiprocessing: without effect: batches are made between steps.

        Returns:
            A `History`.
        """
        if kwargs:
            raise TypeError(
                f"Unrecognized keyword arguments: {sorted(kwargs)}\n"
                + errors.message(f"fit({sorted(kwargs)[0]}=...)", "arguments of fit", "leave them out")
            )
        validation: Any = None
        if validation_data is not None:
            if batch_sources.is_generator(validation_data):
                validation = model_data.source(
                    self, validation_data, None, None, None, None, validation_steps, False, "test"
                )
            else:
                if not isinstance(validation_data, (tuple, list)) or len(validation_data) not in (2, 3):
                    raise ValueError(
                        "When passing a `validation_data` argument, it must contain 2 items (x_val, y_val), or 3 items "
                        f"(x_val, y_val, val_sample_weights). However we received {validation_data}\n"
                        + errors.message("validation_data of another form", "two or three items", "(x_val, y_val)")
                    )
                parts = (*validation_data, None)[:3]
                validation = model_data.source(
                    self,
                    parts[0],
                    parts[1],
                    parts[2],
                    None,
                    batch_size,
                    validation_steps,
                    validation_steps is None,
                    "test",
                )
        elif validation_split:
            if any(isinstance(one, (tf.Tensor, tf.Variable)) and not state.is_eager() for one in nest.flatten(x)):
                raise ValueError(
                    "If your data is in the form of symbolic tensors, you cannot use `validation_split`.\n"
                    + errors.message("validation_split and tensors of a graph", "arrays", "validation_data=(x, y)")
                )
            if batch_sources.is_generator(x):
                what = "a dataset or a dataset iterator" if batch_sources.is_dataset(x) else "a generator"
                raise ValueError(
                    f"`validation_split` argument is not supported when input `x` is {what}. Received: x={x}, "
                    f"validation_split={validation_split:f}\n"
                    + errors.message("validation_split and batches", "arrays", "validation_data=...")
                )
            inputs, targets, weights = model_data.standard(self, x, y, sample_weight, class_weight)
            groups = [inputs, targets, *([weights] if weights is not None else [])]
            at = int(inputs[0].shape[0] * (1.0 - validation_split))
            halves = [batch_sources.split(group, at) for group in groups]
            rows = model_data.samples_in_step(self, batch_size)
            validation = batch_sources.Arrays([after for _, after in halves], rows, shuffle=True)
            data: Any = batch_sources.Arrays([before for before, _ in halves], rows, shuffle)
        if validation_data is not None or not validation_split:
            data = model_data.source(
                self, x, y, sample_weight, class_weight, batch_size, steps_per_epoch, shuffle, "train"
            )
        return rounds.train(
            self, data, validation, epochs, initial_epoch, verbose, callbacks, validation_freq, batch_size or 32
        )

    def _serving_function(self) -> Any:
        """What `tf.saved_model.save` serves by default: the outputs by name, for inputs by name, without training."""
        if not self.inputs:
            raise ValueError(
                f"Model {self.name!r} cannot be saved because the input shapes have not been set.\n"
                + errors.message("a model that has seen no data", "a model that is built", "model.predict(x) first")
            )
        specs = [
            tf.TensorSpec(K.int_shape(x), x.dtype.base_dtype, name)
            for x, name in zip(self.inputs, self.input_names, strict=True)
        ]

        def serve(*inputs: Any) -> dict[str, Any]:
            phase = {"training": False} if "training" in self._call_arguments else {}
            outputs = nest.flatten(self(self._as_given(list(inputs)), **phase))
            return dict(zip(self.output_names, outputs, strict=True))

        return tf.function(serve, specs, autograph=False).get_concrete_function()

    def reset_states_of_epoch(self) -> None:
        """Nothing: recurrent layers keep their state between epochs until `reset_states` is called."""

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int = 1,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> Any:
        """The loss and metrics on data; arguments are those of :meth:`fit`.

        Returns:
            The loss, or a list of the loss and the metrics.
        """
        data = model_data.source(self, x, y, sample_weight, None, batch_size, steps, False, "test")
        self.reset_metrics()
        running = CallbackList.of(
            self,
            callbacks,
            verbose,
            {
                "batch_size": batch_size,
                "steps": None if data.samples is not None else data.size,
                "samples": data.samples,
                "verbose": verbose,
                "epochs": 1,
                "metrics": self.metrics_names,
            },
            mode="test",
        )
        running.call("on_test_begin")
        logs = rounds.run(self, "test", data, self.metrics_names, running)
        running.call("on_test_end", logs)
        data.close()
        return single([logs[name] for name in self.metrics_names])

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: int = 0,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> Any:
        """The outputs for data, as arrays; arguments are those of :meth:`fit`."""
        data = model_data.source(self, x, None, None, None, batch_size, steps, False, "predict")
        self.reset_metrics()  # as at the beginning of any round over data
        running = CallbackList.of(
            self,
            callbacks,
            verbose,
            {
                "batch_size": batch_size,
                "steps": None if data.samples is not None else data.size,
                "samples": data.samples,
                "verbose": verbose,
                "epochs": 1,
                "metrics": [],
            },
            mode="predict",
        )
        running.call("on_predict_begin")
        parts: list[list[Any]] = []
        for step, (size, batch) in enumerate(data.batches()):
            running.call("on_predict_batch_begin", step, {"batch": step, "size": size})
            parts.append(self._run("predict", batch))
            running.call("on_predict_batch_end", step, {"batch": step, "size": size, "outputs": list(parts[-1])})
        running.call("on_predict_end")
        data.close()
        return single([np.concatenate(group) for group in zip(*parts, strict=True)])

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, reset_metrics: bool = True
    ) -> Any:
        """One step of training; returns the loss, or a list of the loss and the metrics."""
        inputs, targets, weights = model_data.standard(self, x, y, sample_weight, class_weight)
        return self._one("train", inputs, targets, weights, reset_metrics)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, reset_metrics: bool = True) -> Any:
        """The loss on a batch, or a list of the loss and the metrics."""
        inputs, targets, weights = model_data.standard(self, x, y, sample_weight, None, "test")
        return self._one("test", inputs, targets, weights, reset_metrics)

    def _one(self, kind: str, inputs: Any, targets: Any, weights: Any, reset_metrics: bool) -> Any:
        batch = [[_evaluated(a) for a in inputs], [_evaluated(a) for a in targets]]
        values = self._run(kind, [*batch, weights] if weights is not None else batch)
        if reset_metrics:
            self.reset_metrics()
        return single(values)

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for a batch: arrays, and where ops run at once tensors, as in TensorFlow 1.15."""
        inputs, _, _ = model_data.standard(self, x, kind="predict")
        outputs = self._run("predict", [[_evaluated(a) for a in inputs], []])
        return single([tf.convert_to_tensor(output) for output in outputs] if state.is_eager() else outputs)

    def fit_generator(
        self,
        generator: Any,
        steps_per_epoch: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Any = None,
        validation_data: Any = None,
        validation_steps: int | None = None,
        validation_freq: Any = 1,
        class_weight: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        shuffle: bool = True,
        initial_epoch: int = 0,
    ) -> Any:
        """Train on batches; see :meth:`fit`."""
        return self.fit(
            generator,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_data=validation_data,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
            class_weight=class_weight,
            shuffle=shuffle,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
        )

    def evaluate_generator(
        self,
        generator: Any,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        verbose: int = 0,
    ) -> Any:
        """The loss and metrics on batches; see :meth:`evaluate`."""
        return self.evaluate(generator, steps=steps, callbacks=callbacks, verbose=verbose)

    def predict_generator(
        self,
        generator: Any,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        verbose: int = 0,
    ) -> Any:
        """The outputs for batches; see :meth:`predict`."""
        return self.predict(generator, steps=steps, callbacks=callbacks, verbose=verbose)

    # ----------------------------------------------------------------------------------------------------------- files

    def save(
        self,
        filepath: str,
        overwrite: bool = True,
        include_optimizer: bool = True,
        save_format: str | None = None,
        signatures: Any = None,
    ) -> None:
        """Write the model to an HDF5 file: config, weights, and the state of its optimizer."""
        saving.save_model(self, filepath, overwrite, include_optimizer, save_format, signatures)

    def save_weights(self, filepath: str, overwrite: bool = True, save_format: str | None = None) -> None:
        """Write the weights: to an HDF5 file if the path ends so, else to a checkpoint by object."""
        saving.save_weights(self, filepath, overwrite, save_format)

    def load_weights(self, filepath: str, by_name: bool = False) -> Any:
        """Read the weights from a file that :meth:`save_weights` or :meth:`save` wrote."""
        return saving.load_weights(self, filepath, by_name)

    def to_json(self, **kwargs: Any) -> str:
        """The config as JSON."""
        return saving.to_json(self, **kwargs)

    def to_yaml(self, **kwargs: Any) -> str:
        """The config as YAML."""
        return saving.to_yaml(self, **kwargs)

    def summary(self, line_length: int | None = None, positions: Any = None, print_fn: Any = None) -> None:
        """Print the layers, their outputs' shapes and numbers of weights."""
        from_layers = saving.summary_lines(self, line_length, positions)
        for line in from_layers:
            (print_fn or print)(line)


for _method in ("fit", "fit_generator", "evaluate_generator", "predict_generator", "compile"):
    setattr(Model, _method, modern(getattr(Model, _method)))


class _Uncompiled:
    """What stands for the losses of a model that only predicts."""

    def __init__(self, model: Any) -> None:
        self.names = model.output_names
        self.trained: list[int] = []
        self.losses: list[Any] = []
        self.modes: list[Any] = []


def _evaluated(x: Any) -> Any:
    return state.eval(x) if isinstance(x, tf.Tensor) and not x.has_value else x
