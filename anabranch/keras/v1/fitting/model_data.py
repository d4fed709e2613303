"""The data that a model is given, as batches of what it takes: arrays, tensors, datasets, generators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import losses
from anabranch.keras.v1.fitting import batches as batch_sources
from anabranch.keras.v1.fitting import steps as step_kinds


def _shapes(model: Any) -> list[Any]:
    return [K.int_shape(x) for x in model.inputs]


def standard(
    model: Any, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, kind: str = "train"
) -> tuple[list[Any], list[Any], list[Any] | None]:
    """Inputs, targets and weights as lists of arrays."""
    if model.inputs is None:
        if isinstance(x, Mapping):
            model._ready(kind, dict(zip(sorted(x), batch_sources.as_list(x, sorted(x), "input"), strict=True)))
        else:
            names = ["input"] * (len(x) if isinstance(x, (list, tuple)) and batch_sources._is_array(x[0]) else 1)
            model._ready(kind, batch_sources.as_list(x, names, "input"))
    else:
        model._ready(kind, [])
    if isinstance(x, (tf.data.Dataset, tf.data.Iterator)):
        x, y, sample_weight = batch_sources.one_batch(x)
    inputs = batch_sources.as_list(x, model.input_names, "input")
    if not inputs and getattr(model._steps, "inputs", model.inputs):
        raise ValueError(
            f'No data provided for "{model.input_names[0]}". Need data for each key in: {model.input_names}\n'
            + errors.message("no data", "arrays, tensors or a dataset", "the tensors that the model was trained on")
        )
    if inputs and not any(isinstance(one, tf.Tensor) for one in inputs):
        inputs = [
            one[:, 0] if one.ndim == 2 and one.shape[1] == 1 and shape is not None and len(shape) == 1 else one
            for one, shape in zip(inputs, _shapes(model), strict=True)
        ]
        batch_sources.check_shapes(inputs, model.input_names, _shapes(model), "input")
    if kind == "predict":
        return inputs, [], None
    compiled = model._compiled
    names = [compiled.names[i] for i in compiled.trained]
    has_own = isinstance(model._steps, step_kinds.GraphSteps) and not model._steps.fed_targets
    targets = [] if has_own or not names else batch_sources.as_list(y, names, "target")
    if not names and y is not None and not isinstance(y, Mapping):
        raise ValueError(
            f"('Error when checking model target: expected no data, but got:', {y!r})\n"
            + errors.message(
                f"targets for {model.name}, none of whose outputs has a loss",
                "no targets",
                "fit(x), or model.compile(optimizer, loss) with a loss for the output",
            )
        )
    if names and y is None and not has_own:
        raise ValueError(
            f"No targets provided for {names}.\n"
            + errors.message(
                "inputs without targets for a model with a loss",
                f"targets for {names}",
                "fit(x, y), or compile without a loss and model.add_loss(...)",
            )
        )
    if not has_own:
        _check_targets(model, targets, inputs)
    modes = [compiled.modes[i] for i in compiled.trained]
    weights = batch_sources.sample_weights(sample_weight, class_weight, targets or inputs, names, modes)
    return inputs, targets, weights


def _check_targets(model: Any, targets: list[Any], inputs: list[Any]) -> None:
    if targets and all(hasattr(x, "shape") and not isinstance(x, tf.Tensor) for x in [*inputs, *targets]):
        batch_sources.check_samples(inputs, targets)
    for i, target in zip(model._compiled.trained, targets, strict=True):
        if not hasattr(target, "ndim"):
            continue
        loss = model._compiled.losses[i]
        shape, function = K.int_shape(model.outputs[i]), getattr(loss, "fn", None)
        if function is losses.categorical_crossentropy and target.shape[-1] == 1:
            raise ValueError(
                f"You are passing a target array of shape {target.shape} while using as loss "
                "`categorical_crossentropy`. `categorical_crossentropy` expects targets to be binary matrices (1s and "
                "0s) of shape (samples, classes).\n"
                + errors.message(
                    f"targets of shape {target.shape}",
                    f"targets of shape {shape}",
                    "to_categorical(y), or the loss 'sparse_categorical_crossentropy' for numbers of classes",
                )
            )
        if function in _OF_EQUAL_SHAPES:
            pairs = zip(target.shape[1:], shape[1:], strict=False)
            if any(known is not None and known != given for given, known in pairs):
                raise ValueError(
                    f"A target array with shape {target.shape} was passed for an output of shape {shape} while using "
                    f"as loss `{loss.name}`. This loss expects targets to have the same shape as the output.\n"
                    + errors.message(f"targets of shape {target.shape}", f"targets of shape {shape}", "np.reshape")
                )
        sparse = function is losses.sparse_categorical_crossentropy
        wanted = (*shape[:-1], 1) if sparse else shape[:1] + (None,) * (len(shape) - 1)  # others may be broadcast
        if getattr(function, "__module__", "").endswith("keras.v1.losses") and not (
            sparse and len(wanted) != target.ndim
        ):
            batch_sources.check_shapes([target], [model._compiled.names[i]], [wanted], "target")


def samples_in_step(model: Any, batch_size: int | None, steps: Any = None) -> int:
    """How many samples a step takes of arrays: as many as the program says, or the first input, or 32.

    Raises:
        ValueError: the program and the input say different numbers.
    """
    shape = K.int_shape(model.inputs[0]) if model._is_graph_network and model.inputs else None
    fixed = shape[0] if shape else None
    if fixed is not None and batch_size is not None and batch_size != fixed and model._strategy is None:
        raise ValueError(
            f"The `batch_size` argument value {batch_size} is incompatible with the specified batch size of your Input "
            f"Layer: {fixed}\n"
            + errors.message(
                f"batch_size={batch_size} for {model.name}, whose input has the shape {shape}",
                f"batch_size={fixed}",
                "leave batch_size out, or make the input without a batch size: Input((3,))",
            )
        )
    if batch_size is None and fixed is not None and steps is None:
        return int(fixed)
    return batch_size or 32


_OF_EQUAL_SHAPES = (losses.mean_squared_error, losses.binary_crossentropy, losses.categorical_crossentropy)
"""Losses that TensorFlow 1.15 refuses targets of other shapes for; with others these are broadcast."""


def source(
    model: Any,
    x: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    batch_size: Any,
    steps: Any,
    shuffle: Any,
    kind: str,
) -> Any:
    """What gives a model its batches of inputs, targets and weights, from data in any form that `fit` takes."""
    if batch_sources.is_dataset(x):
        argument = "steps_per_epoch" if kind == "train" else "steps"
        batch_sources.check_dataset(x, y, sample_weight, batch_size, steps, argument)
    if batch_sources.is_generator(x):
        if y is not None:
            raise ValueError(
                "`y` argument is not supported when data is a generator or Sequence "
                "instance. Instead pass targets as "
                "the second element of the generator.\n"
                + errors.message("a generator and targets", "targets within the batches", "fit(generator)")
            )

        def prepare(element: Any) -> Any:
            parts = (
                element
                if isinstance(element, tuple) or (isinstance(element, list) and kind != "predict")
                else (element,)
            )
            if not 1 <= len(parts) <= 3:
                raise ValueError(
                    f"Output of generator should be a tuple `(x, y, sample_weight)` or `(x, y)`. Found: {element}\n"
                    + errors.message(f"{len(parts)} parts", "one to three", "yield x, y")
                )
            parts = [nest.map_structure(_value, part) for part in parts]
            given = (*parts, None, None)[:3]
            inputs, targets, weights = standard(model, given[0], given[1], given[2], class_weight, kind)
            return [inputs, targets, *([weights] if weights is not None else [])]

        return batch_sources.Batches(x, steps, prepare, bool(shuffle))
    inputs, targets, weights = standard(model, x, y, sample_weight, class_weight, kind)
    groups = [inputs, targets, *([weights] if weights is not None else [])]
    has_tensors = any(isinstance(one, tf.Tensor) for one in [*inputs, *targets])
    if has_tensors or not inputs or steps is not None:
        return batch_sources.Repeated(groups, steps, "steps_per_epoch" if kind == "train" else "steps")
    return batch_sources.Arrays(groups, samples_in_step(model, batch_size), shuffle)


def _value(x: Any) -> Any:
    return x.numpy() if isinstance(x, tf.Tensor) and x.has_value else x
