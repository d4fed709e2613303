"""Epochs: rounds over the batches of some data, and what callbacks are told of them."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.fitting.batches import Batches
from anabranch.keras.v1.fitting.callback_list import CallbackList
from anabranch.keras.v1.optimizers import Optimizer


def _amount(source: Any) -> str:
    """How much data a source has, as TensorFlow 1.15 prints it: where ops run at once, "for" a number of steps."""
    if source.samples is not None:
        return f"on {source.samples} samples"
    return f"{'for' if state.is_eager() else 'on'} {source.size} steps"


def _says_how_much(model: Any, data: Any) -> bool:
    """Whether TensorFlow 1.15 prints how much data there is: where ops run at once, optimizers of ``tf.train`` have a
    loop of their own, which does not say it of datasets.
    """
    if data.samples is not None or not data.is_dataset or not state.is_eager():
        return data.samples is not None or data.is_dataset
    return data.steps is not None and isinstance(model.optimizer, Optimizer)


def _is_due(epoch: int, often: Any) -> bool:
    return (epoch + 1) % often == 0 if isinstance(often, int) else epoch + 1 in often


def train(
    model: Any,
    data: Any,
    validation: Any,
    epochs: int,
    first: int,
    verbose: int,
    callbacks: Any,
    often: Any,
    size: int,
) -> Any:
    """Train a model: epochs over ``data`` from the epoch ``first`` on, with ``validation`` after those that are due.

    Returns:
        The model's history.
    """
    names = model.metrics_names
    reported = [*names, *[f"val_{name}" for name in names]] if validation is not None else list(names)
    running = CallbackList.of(
        model,
        callbacks,
        verbose,
        {
            "batch_size": size,
            "epochs": epochs,
            "steps": None if data.samples is not None else data.size,
            "samples": data.samples,
            "verbose": verbose,
            "do_validation": validation is not None,
            "metrics": reported,
        },
    )
    running.validation = validation
    if verbose and _says_how_much(model, data):
        known = [
            data,
            *([validation] if validation is not None and (validation.samples or validation.size) else []),
        ]
        print("Train " + ", validate ".join(map(_amount, known)))
    model.stop_training = False
    running.call("on_train_begin")
    logs: dict[str, Any] = {}
    for epoch in range(first, epochs):
        model.reset_metrics()
        running.call("on_epoch_begin", epoch)
        logs = run(model, "train", data, names, running)
        if validation is not None and _is_due(epoch, often):
            model.reset_metrics()
            validation.begin_anew()
            running.call("on_test_begin")
            found = run(model, "test", validation, names, running)
            running.call("on_test_end", found)
            logs.update({f"val_{name}": value for name, value in found.items()})
        running.call("on_epoch_end", epoch, logs)
        if model.stop_training or data.ran_out:
            break
    running.call("on_train_end")
    data.close()
    if validation is not None:
        validation.close()
    return model.history


def run(model: Any, kind: str, data: Any, names: list[str], running: Any) -> dict[str, Any]:
    """One round over all batches: the loss of all of them, and the metrics after the last one, by name.

    The loss is the mean over samples where their number is known, and in training on a sequence or generator, or on a
    dataset where ops run at once; else over batches.
    """
    model.reset_states_of_epoch()
    weighs = isinstance(data, Batches) and (not data.is_dataset or state.is_eager())
    by_sample = data.samples is not None or (kind == "train" and weighs)
    total, weight = 0.0, 0
    values: list[Any] = []
    for step, (size, batch) in enumerate(data.batches()):
        running.call(f"on_{kind}_batch_begin", step, {"batch": step, "size": size})
        values = model._run(kind, batch)
        share = size if by_sample else 1
        total, weight = total + float(values[0]) * share, weight + share
        logs = {"batch": step, "size": size, **dict(zip(names, values, strict=True))}
        running.call(f"on_{kind}_batch_end", step, logs)
        if kind == "train" and model.stop_training:
            break
    if not weight:
        raise ValueError(
            "Empty training data.\n" + errors.message("no batch", "at least one batch", "data with samples")
        )
    return {**dict(zip(names, values, strict=True)), names[0]: total / weight}
