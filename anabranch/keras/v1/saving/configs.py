"""Models as configs: JSON, YAML, and copies of a model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1.layer import registry
from anabranch.keras.v1.layers.inputs import InputLayer

VERSION = "2.2.4-tf"


def plain(x: Any) -> Any:
    """What JSON takes of a value."""
    if hasattr(x, "get_config"):
        return {"class_name": type(x).__name__, "config": x.get_config()}
    if isinstance(x, np.ndarray):
        return x.tolist()
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, tf.Dimension):
        return x.value
    if isinstance(x, tf.TensorShape):
        return x.as_list()
    if isinstance(x, tf.DType):
        return x.name
    if callable(x):
        return x.__name__
    raise TypeError(
        f"Not JSON Serializable: {x!r}\n"
        + errors.message(f"{x!r} in a config", "numbers, strings, lists", "get_config")
    )


def _described(model: Any) -> dict[str, Any]:
    return {
        "class_name": type(model).__name__,
        "config": model.get_config(),
        "keras_version": VERSION,
        "backend": "tensorflow",
    }


def to_json(model: Any, **kwargs: Any) -> str:
    """The config of a model as JSON."""
    return json.dumps(_described(model), default=plain, **kwargs)


def to_yaml(model: Any, **kwargs: Any) -> str:
    """The config of a model as YAML: JSON, which is a part of it."""
    return to_json(model, **kwargs)


def model_from_config(config: Any, custom_objects: Any = None) -> Any:
    """The model that a config describes."""
    if isinstance(config, list):
        raise TypeError(
            "`model_from_config` expects a dictionary, not a list. Maybe you meant to use "
            "`Sequential.from_config(config)`?\n"
            + errors.message("a list", "a dict with class_name and config", "Sequential.from_config(config)")
        )
    return registry.deserialize(_older(config), custom_objects)


def _older(config: dict[str, Any]) -> dict[str, Any]:
    """A config as this version spells it: that of Keras 2.2 names the layers of a Sequential by a list."""
    if isinstance(config.get("config"), list):
        return {**config, "config": {"name": None, "layers": config["config"]}}
    return config


def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """The model that a text of JSON describes."""
    return model_from_config(json.loads(json_string), custom_objects)


def model_from_yaml(yaml_string: str, custom_objects: Any = None) -> Any:
    """The model that a text of YAML describes: one that ``to_yaml`` gave."""
    try:
        config = json.loads(yaml_string)
    except ValueError as problem:
        raise errors.UnimplementedError(
            None, None, errors.message("YAML that is not JSON", "what model.to_yaml() gave", "model_from_json(text)")
        ) from problem
    return model_from_config(config, custom_objects)


def clone_model(model: Any, input_tensors: Any = None, clone_function: Any = None) -> Any:
    """A model of the same layers with new weights.

    Args:
        model: the model.
        input_tensors: tensors to build it on; new inputs if None.
        clone_function: makes each layer from that of the model.
    """
    if not model._is_graph_network:
        raise ValueError(
            "Expected `model` argument to be a functional `Model` instance, but got a subclass model instead.\n"
            + errors.message("a model that says in call what it computes", "a network of tensors", "type(model)()")
        )
    made: dict[int, Any] = {}

    def copy(layer: Any) -> Any:
        if id(layer) not in made:
            made[id(layer)] = (clone_function or (lambda one: type(one).from_config(one.get_config())))(layer)
        return made[id(layer)]

    if input_tensors is None and type(model).__name__ == "Sequential":
        return type(model)([copy(layer) for layer in model.layers], name=model.name)
    given = nest.flatten(input_tensors) if input_tensors is not None else [None] * len(model.inputs)
    values: dict[int, Any] = {}
    for x, tensor in zip(model.inputs, given, strict=True):
        layer = x._keras_history.layer
        if tensor is None:
            tensor = (
                InputLayer(
                    batch_input_shape=getattr(layer, "_batch_input_shape", None),
                    dtype=layer.dtype,
                    sparse=getattr(layer, "sparse", False),
                    name=layer.name,
                )
                ._inbound_nodes[0]
                .output_tensors
            )
        elif not hasattr(tensor, "_keras_history"):
            tensor = (
                InputLayer(input_tensor=tensor, name=f"input_wrapper_for_{layer.name}")._inbound_nodes[0].output_tensors
            )
        values[id(x)] = tensor
    for node in model._nodes:
        outputs = nest.flatten(node.output_tensors)
        if all(id(x) in values for x in outputs):
            continue
        taken = nest.map_structure(lambda x: values[id(x)], node.input_tensors)
        results = nest.flatten(copy(node.outbound_layer)(taken, **node.arguments))
        values.update({id(x): y for x, y in zip(outputs, results, strict=True)})
    ends = [nest.map_structure(lambda x: values[id(x)], one) for one in (model._nested_inputs, model._nested_outputs)]
    return tf.keras.Model(*ends, name=model.name)
