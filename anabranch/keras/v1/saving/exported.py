"""Models as SavedModels that know their layers: ``tf.keras.experimental.export_saved_model`` and what reads them.

The folder has the weights as a checkpoint by object, a MetaGraph that serves the model, and the model's JSON among the
assets. TensorFlow 1.15 writes MetaGraphs for training and evaluation besides, which nothing here reads.
"""

from __future__ import annotations

import json
import os
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import state
from anabranch.keras.v1.saving.configs import clone_model, model_from_config, model_from_json, plain
from anabranch.saved_model import constants, files, signature_constants, signature_def_utils, tag_constants
from anabranch.train.saving import trackable
from anabranch.train.saving.saver import Saver

JSON_NAME = "saved_model.json"
TRAINING = "training_config"
_OF_KERAS = "_tf_keras_"


def export_saved_model(
    model: Any,
    saved_model_path: Any,
    custom_objects: Any = None,
    as_text: bool = False,
    input_signature: Any = None,
    serving_only: bool = False,
) -> None:
    """Write a SavedModel whose default signature maps the inputs of a model to its outputs.

    Args:
        model: a network of tensors.
        saved_model_path: directory, which must be empty or not exist.
        custom_objects: classes and functions by name that the model's description names.
        as_text: write the description as text.
        input_signature: `tf.TensorSpec` for each input; as the model says if None.
        serving_only: without effect: only what is served is written.
    """
    write(model, saved_model_path, custom_objects, as_text, input_signature)


def write(
    model: Any,
    saved_model_path: Any,
    custom_objects: Any = None,
    as_text: bool = False,
    input_signature: Any = None,
    training: Any = None,
) -> None:
    """The same, and ``training``, how the model was compiled, beside what it consists of."""
    if not model._is_graph_network:
        raise NotImplementedError(
            "Subclassed models can only be exported for serving.\n"
            + errors.message(
                "a model that says in call what it computes",
                "a network of tensors",
                "tf.saved_model.simple_save(session, path, inputs, outputs)",
            )
        )
    path = os.fspath(saved_model_path)
    builder = tf.saved_model.Builder(path)
    prefix = files.variables_prefix(path)
    os.makedirs(os.path.dirname(prefix), exist_ok=True)
    model.save_weights(prefix, save_format="tf")
    description = model.to_json()
    if training is not None:
        description = json.dumps({**json.loads(description), TRAINING: training}, default=plain)
    graph = tf.Graph()
    with graph.as_default(), state.learning_phase_scope(0):
        copied = model_from_json(description, custom_objects)
        if input_signature is not None:
            tensors = [tf.placeholder(spec.dtype, spec.shape, name=spec.name) for spec in nest.flatten(input_signature)]
            copied = clone_model(copied, tensors[0] if len(tensors) == 1 else tensors)
        signature = signature_def_utils.predict_signature_def(
            dict(zip(model.input_names, copied.inputs, strict=True)),
            dict(zip(model.output_names, copied.outputs, strict=True)),
        )
        saver = Saver(trackable.ObjectGraph(copied).saveables(), allow_empty=True)
        builder.add_meta_graph_of_saved_variables(
            [tag_constants.SERVING],
            {signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
            saver=saver,
        )
    builder.save(as_text)
    assets = os.path.join(path, constants.ASSETS_DIRECTORY)
    os.makedirs(assets, exist_ok=True)
    with open(os.path.join(assets, JSON_NAME), "w", encoding="utf-8") as file:
        file.write(description)


def load_from_saved_model(saved_model_path: Any, custom_objects: Any = None) -> Any:
    """Make the model that :func:`export_saved_model`, here or in TensorFlow 1.15, wrote, with its weights.

    Args:
        saved_model_path: the directory.
        custom_objects: classes and functions by name that the model's description names.

    Raises:
        NotFoundError: the directory has no description of a model.
    """
    path = os.fspath(saved_model_path)
    path = path.decode() if isinstance(path, bytes) else path
    description, _ = described(path)
    if description is None:
        raise errors.NotFoundError(
            None,
            None,
            errors.message(
                f"a SavedModel without {constants.ASSETS_DIRECTORY}/{JSON_NAME} in {path!r}",
                "a folder that export_saved_model has written",
                "tf.saved_model.load(path), which knows signatures alone",
            ),
        )
    model = model_from_config(description, custom_objects)
    model.load_weights(files.variables_prefix(path))
    return model


def described(path: str) -> tuple[Any, Any]:
    """What a folder says of the model in it, and of how it was compiled: configs, or None.

    :func:`write` says it among the assets, and TensorFlow's ``model.save(path, save_format="tf")`` with the object that
    stands for the model.
    """
    asset = os.path.join(path, constants.ASSETS_DIRECTORY, JSON_NAME)
    if os.path.isfile(asset):
        with open(asset, encoding="utf-8") as file:
            config = json.load(file)
        return config, config.pop(TRAINING, None)
    if not files.maybe_saved_model_directory(path):
        return None, None
    for meta in files.read_saved_model(path).meta_graphs:
        nodes = meta.object_graph_def.nodes
        if nodes and nodes[0].user_object.identifier.startswith(_OF_KERAS):
            metadata = json.loads(nodes[0].user_object.metadata or "{}")
            return metadata.get("model_config"), metadata.get(TRAINING)
    return None, None
