"""Models in files: HDF5 files of weights or of all, checkpoints by object, and the text of a summary.

The HDF5 layout is that of TensorFlow 1.15's Keras: a group for each layer with its weights under their variables'
names, and for a whole model the config, the arguments of ``compile`` and the optimizer's weights beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import objects, optimizers, state
from anabranch.keras.v1.saving import exported
from anabranch.keras.v1.saving.configs import VERSION, model_from_config, plain
from anabranch.keras.v1.saving.exported import write
from anabranch.saved_model import files
from anabranch.train.saving import checkpoint_state

_SUFFIXES = (".h5", ".keras", ".hdf5")


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError as problem:
        raise ImportError(
            "`save_model` requires h5py.\n"
            + errors.message("a process without h5py", "h5py, for HDF5 files", "pip install 'anabranch[keras]'")
        ) from problem
    return h5py


@contextlib.contextmanager
def _opened(place: Any, mode: str) -> Iterator[Any]:
    h5py = _h5py()
    if isinstance(place, h5py.Group):
        yield place
        return
    with h5py.File(os.fspath(place), mode) as file:
        yield file


def is_hdf5(path: Any) -> bool:
    """Whether a path names an HDF5 file."""
    return str(path).endswith(_SUFFIXES)


# ------------------------------------------------------------------------------------------------------------- weights


def _write_attribute(group: Any, name: str, values: Any) -> None:
    """A list of names as an attribute, in parts if it is too long for one."""
    data = np.asarray([value.encode("utf8") if isinstance(value, str) else value for value in values])
    parts = 1
    while any(part.nbytes > 64512 for part in np.array_split(data, parts)):
        parts += 1
    if parts == 1:
        group.attrs[name] = data
    else:
        for i, part in enumerate(np.array_split(data, parts)):
            group.attrs[f"{name}{i}"] = part


def _read_attribute(group: Any, name: str) -> list[str]:
    if name in group.attrs:
        parts = [group.attrs[name]]
    else:
        parts = []
        while f"{name}{len(parts)}" in group.attrs:
            parts.append(group.attrs[f"{name}{len(parts)}"])
    return [item.decode("utf8") if isinstance(item, bytes) else str(item) for part in parts for item in part]


def _write_arrays(group: Any, names: list[str], arrays: list[Any]) -> None:
    _write_attribute(group, "weight_names", names)
    for name, array in zip(names, arrays, strict=True):
        if np.ndim(array):
            group.create_dataset(name, data=array)
        else:
            group.create_dataset(name, np.shape(array), dtype=np.asarray(array).dtype)[()] = array


def _write_layers(group: Any, layers: list[Any]) -> None:
    _write_attribute(group, "layer_names", [layer.name for layer in layers])
    group.attrs["backend"] = b"tensorflow"
    group.attrs["keras_version"] = VERSION.encode()
    for layer in layers:
        weights = layer.weights
        arrays = [np.asarray(array) for array in state.batch_get_value(weights)]
        _write_arrays(group.create_group(layer.name), [weight.name for weight in weights], _stored(layer, arrays))


def save_weights(model: Any, filepath: Any, overwrite: bool = True, save_format: str | None = None) -> None:
    """Write the weights of a model: to an HDF5 file, or to a checkpoint by object."""
    path = os.fspath(filepath)
    as_hdf5 = is_hdf5(path) if save_format is None else save_format.lower().strip() in ("h5", "hdf5", "keras")
    if save_format is not None and not as_hdf5 and save_format.lower().strip() not in ("tensorflow", "tf"):
        raise ValueError(
            f"Unknown format {save_format!r}. Was expecting one of {{'tf', 'h5'}}.\n"
            + errors.message(repr(save_format), "'tf' or 'h5'", "save_format='h5'")
        )
    model._assert_weights_created()
    if not _may_write(path if as_hdf5 else f"{path}.index", overwrite):
        return
    if as_hdf5:
        with _opened(path, "w") as file:
            _write_layers(file, model.layers)
    else:
        session = None if state.is_eager() else state.get_session()
        tf.train.Checkpoint(root=model).write(path, session=session)
        checkpoint_state.write_state(os.path.dirname(path), path, [path], save_relative_paths=True)


def _may_write(path: str, overwrite: bool) -> bool:
    if overwrite or not os.path.exists(path):
        return True
    answer = ""
    while answer not in ("y", "n"):
        answer = input(f"[WARNING] {path} already exists - overwrite? [y/n]").strip().lower()
    return answer == "y"


def load_weights(model: Any, filepath: Any, by_name: bool = False) -> Any:
    """Read the weights of a model from a file that was written by :func:`save_weights` or :func:`save_model`."""
    path = os.fspath(filepath)
    if not os.path.exists(f"{path}.index") and (is_hdf5(path) or _begins_like_hdf5(path)):
        if not model.built:
            raise ValueError(
                "Unable to load weights saved in HDF5 format into a subclassed Model which has "
                "not created its variables "
                "yet. Call the Model first, then load the weights.\n"
                + errors.message("a model without weights", "a model that is built", "model.build((None, 3))")
            )
        with _opened(path, "r") as file:
            group = file["model_weights"] if "layer_names" not in file.attrs and "model_weights" in file else file
            (_read_by_name if by_name else _read_layers)(group, model.layers)
        return None
    if by_name:
        raise NotImplementedError(
            "Weights may only be loaded based on topology into Models when loading TensorFlow-formatted weights "
            "(got by_name=True to load_weights).\n"
            + errors.message("by_name=True for a checkpoint", "by_name=False", "an HDF5 file")
        )
    status = tf.train.Checkpoint(root=model).read(path)
    if not state.is_eager():
        status.restore_as_they_come(state.get_session())
    status.assert_nontrivial_match()
    return status


def _begins_like_hdf5(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def _arrays_of(group: Any, name: str) -> list[np.ndarray]:
    return [np.asarray(group[name][weight]) for weight in _read_attribute(group[name], "weight_names")]


def _read_layers(group: Any, layers: list[Any]) -> None:
    own = [layer for layer in layers if layer.weights]
    names = [name for name in _read_attribute(group, "layer_names") if _read_attribute(group[name], "weight_names")]
    if len(names) != len(own):
        raise ValueError(
            f"You are trying to load a weight file containing {len(names)} layers into a model "
            f"with {len(own)} layers.\n"
            + errors.message(
                f"weights of {len(names)} layers", f"{len(own)} layers", "load_weights(path, by_name=True)"
            )
        )
    pairs: list[tuple[Any, Any]] = []
    for name, layer in zip(names, own, strict=True):
        pairs += _fitted(layer, name, _arrays_of(group, name))
    state.batch_set_value(pairs)


def _read_by_name(group: Any, layers: list[Any]) -> None:
    pairs: list[tuple[Any, Any]] = []
    for name in _read_attribute(group, "layer_names"):
        arrays = _arrays_of(group, name)
        for layer in layers:
            if layer.name == name and arrays:
                pairs += _fitted(layer, name, arrays)
    state.batch_set_value(pairs)


def _fitted(layer: Any, name: str, arrays: list[np.ndarray]) -> list[tuple[Any, Any]]:
    weights = layer.weights
    arrays = _restored(layer, arrays)
    if len(weights) != len(arrays):
        raise ValueError(
            f'Layer "{layer.name}" (named "{name}" in the weight file) expects {len(weights)} weights, '
            "but the saved weights "
            f"have {len(arrays)} elements.\n"
            + errors.message(f"{len(arrays)} arrays", f"{len(weights)} arrays", "a file of the same layers")
        )
    for weight, array in zip(weights, arrays, strict=True):
        if K.dims(weight.shape) != array.shape:
            raise ValueError(
                f'Layer "{layer.name}", weight {weight.name} has shape {weight.shape}, but the saved weight has shape '
                f"{array.shape}.\n" + errors.message(f"shape {array.shape}", f"{weight.shape}", "the same layer sizes")
            )
    return list(zip(weights, arrays, strict=True))


def _by_gate(kernel: np.ndarray, gates: int, change: Any) -> np.ndarray:
    return np.hstack([change(part) for part in np.hsplit(kernel, gates)])


def _stored(layer: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Weights as a file holds them: those of cuDNN's layers are transposed gate by gate, with the bias twice."""
    kind = type(layer).__name__
    if kind not in ("CuDNNLSTM", "CuDNNGRU") or len(arrays) != 3:
        return arrays
    gates = 4 if kind == "CuDNNLSTM" else 3
    kernel, recurrent, bias = arrays
    kernel = _by_gate(kernel, gates, lambda k: k.T.reshape(k.shape, order="C"))
    recurrent = _by_gate(recurrent, gates, lambda k: k.T)
    return [kernel, recurrent, np.tile(0.5 * bias, 2) if kind == "CuDNNLSTM" else bias.reshape(-1)]


def _restored(layer: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Weights of a file as the layer holds them."""
    weights = layer.weights
    if len(arrays) != 3 or len(weights) != 3 or not hasattr(layer, "cell"):
        return arrays
    kernel, recurrent, bias = arrays
    units = recurrent.shape[0]
    is_cudnn = (
        recurrent.ndim == 2
        and bias.ndim == 1
        and bias.size in (8 * units, 6 * units)
        and recurrent.shape[1] * 2 == bias.size
    )
    if not is_cudnn:
        return arrays
    gates = bias.size // (2 * units)
    kernel = _by_gate(kernel, gates, lambda k: k.T.reshape(k.shape, order="F"))
    recurrent = _by_gate(recurrent, gates, lambda k: k.T)
    return [kernel, recurrent, bias.reshape(2, -1).sum(0) if gates == 4 else bias.reshape(2, -1)]


# -------------------------------------------------------------------------------------------------------- whole models


def save_model(
    model: Any,
    filepath: Any,
    overwrite: bool = True,
    include_optimizer: bool = True,
    save_format: str | None = None,
    signatures: Any = None,
) -> None:
    """Write a model to an HDF5 file, or to a SavedModel for inference if ``save_format`` is ``'tf'``."""
    if save_format == "tf":
        write(model, os.fspath(filepath), training=_training_of(model) if include_optimizer else None)
        return
    if signatures is not None or save_format not in (None, "h5", "hdf5"):
        raise ValueError(
            errors.message(f"save_format={save_format!r}, signatures", "'h5', or 'tf'", "save_format='h5'")
        )
    if not model._is_graph_network and not hasattr(model, "_build_input_shape"):
        raise NotImplementedError(
            "Saving the model to HDF5 format requires the model to be a Functional model or a "
            "Sequential model. It does not "
            "work for subclassed models, because such models are defined via the body of a "
            "Python method, which isn't safely "
            "serializable. Consider using `save_weights`, in order to save the weights of the model.\n"
            + errors.message("a model of one's own", "a network of tensors", "model.save_weights(path)")
        )
    h5py = _h5py()
    if not isinstance(filepath, h5py.Group) and not _may_write(os.fspath(filepath), overwrite):
        return
    with _opened(filepath, "w") as file:
        file.attrs["keras_version"] = VERSION.encode()
        file.attrs["backend"] = b"tensorflow"
        described = {"class_name": type(model).__name__, "config": model.get_config()}
        file.attrs["model_config"] = json.dumps(described, default=plain).encode("utf8")
        _write_layers(file.create_group("model_weights"), model.layers)
        training = _training_of(model) if include_optimizer else None
        if training is None:
            return
        optimizer = model.optimizer
        file.attrs["training_config"] = json.dumps(training, default=plain).encode("utf8")
        if optimizer.weights:
            arrays = state.batch_get_value(optimizer.weights)
            names = [weight.name for weight in optimizer.weights]
            _write_arrays(file.create_group("optimizer_weights"), names, arrays)


def _training_of(model: Any) -> dict[str, Any] | None:
    """How a model was compiled; None if it was not, or if its optimizer cannot be described."""
    optimizer = model.optimizer
    if optimizer is None:
        return None
    if isinstance(optimizer, optimizers.TFOptimizer):
        tf.logging.warning(
            "TensorFlow optimizers do not make it possible to access optimizer attributes or optimizer state after "
            "instantiation. As a result, we cannot save the optimizer as part of the model save file."
        )
        return None
    described = {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}
    return {"optimizer_config": described, **model._compile_arguments}


def _compile(model: Any, arguments: dict[str, Any], custom_objects: Any) -> Any:
    """Compile a model as these arguments describe it; its optimizer."""
    optimizer = optimizers.deserialize(arguments["optimizer_config"], custom_objects)
    names = ("loss", "metrics", "loss_weights", "sample_weight_mode", "weighted_metrics")
    with objects.CustomObjectScope(custom_objects or {}):
        given = {name: _by_names(arguments.get(name), custom_objects) for name in names}
        model.compile(optimizer=optimizer, **given)
    return optimizer


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True) -> Any:
    """Read a model from an HDF5 file, or from a SavedModel of a network that Keras wrote, here or in TensorFlow 1.15.

    Args:
        filepath: the file or folder.
        custom_objects: classes and functions of the program by their names.
        compile: compile it as it was.

    Raises:
        ValueError: the file holds no config. ImportError: h5py is not installed. OSError: there is no such file.
    """
    if isinstance(filepath, (str, os.PathLike)) and os.path.isdir(filepath):
        described, trained = exported.described(os.fspath(filepath))
        if described is not None:
            model = model_from_config(described, custom_objects)
            if compile and trained is not None:
                _compile(model, trained, custom_objects)
            model.load_weights(files.variables_prefix(os.fspath(filepath)))
            return model
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                "a SavedModel as a Keras model", "an HDF5 file", "tf.saved_model.loader.load, or load_model('m.h5')"
            ),
        )
    with _opened(filepath, "r") as file:
        config = file.attrs.get("model_config")
        if config is None:
            raise ValueError(
                "No model found in config file.\n"
                + errors.message(f"{filepath}", "a file of a whole model", "model.load_weights(path)")
            )
        model = model_from_config(_json(config), custom_objects)
        _read_layers(file["model_weights"], model.layers)
        training = file.attrs.get("training_config")
        if not compile or training is None:
            return model
        optimizer = _compile(model, _json(training), custom_objects)
        with objects.CustomObjectScope(custom_objects or {}):
            if "optimizer_weights" in file:
                stored = file["optimizer_weights"]
                arrays = [np.asarray(stored[name]) for name in _read_attribute(stored, "weight_names")]
                _restore_optimizer(model, optimizer, arrays)
    return model


def _restore_optimizer(model: Any, optimizer: Any, arrays: list[Any]) -> None:
    if isinstance(optimizer, optimizers.TFOptimizer):
        return
    if not model._is_graph_network:
        tf.logging.warning(
            "Sequential models without an `input_shape` passed to the first layer cannot reload their optimizer "
            "state. As a result, your model is starting with a freshly initialized optimizer."
        )
        return
    with tf.name_scope("training/" + optimizer._name):
        optimizer._create_slots(model._collected_trainable_weights)
    try:
        optimizer.set_weights(arrays)
    except ValueError:
        tf.logging.warning(
            "Error in loading the saved optimizer state. As a result, your model is starting with a freshly "
            "initialized optimizer."
        )


def _by_names(item: Any, custom_objects: Any) -> Any:
    if isinstance(item, dict) and "class_name" not in item:
        return {name: _by_names(value, custom_objects) for name, value in item.items()}
    if isinstance(item, list):
        return [_by_names(value, custom_objects) for value in item]
    if isinstance(item, dict):
        for module in ("losses", "metrics"):
            known = getattr(tf.keras, module)._registry.objects
            if item["class_name"] in {**known, **(custom_objects or {})}:
                return objects.deserialize_keras_object(item, known, custom_objects, "object")
    if isinstance(item, str) and custom_objects and item in custom_objects:
        return custom_objects[item]
    return item


def _json(text: Any) -> Any:
    return json.loads(text.decode("utf8") if isinstance(text, bytes) else text)


# ------------------------------------------------------------------------------------------------------------- summary


def summary_lines(model: Any, line_length: int | None = None, positions: Any = None) -> Iterator[str]:
    """The lines of a model's summary."""
    if not model.built:
        raise ValueError(
            "This model has not yet been built. Build the model first by calling `build()` or "
            "calling `fit()` with some data, "
            "or specify an `input_shape` argument in the first layer(s) for automatic build.\n"
            + errors.message("a model without weights", "a model that is built", "model.build((None, 3))")
        )
    sequential = not model._is_graph_network or all(
        len(node.histories) < 2 and len([n for n in node.outbound_layer._outbound_nodes if n in model._nodes]) < 2
        for node in model._nodes
    )
    length = line_length or (65 if sequential else 98)
    places = positions or ([0.45, 0.85, 1.0] if sequential else [0.33, 0.55, 0.67, 1.0])
    places = [int(length * p) for p in places] if places[-1] <= 1 else places
    heads = ["Layer (type)", "Output Shape", "Param #", *([] if sequential else ["Connected to"])]

    def row(fields: list[Any]) -> str:
        line = ""
        for i, field in enumerate(fields):
            line = (line[:-1] + " " if i else "") + str(field)
            line = line[: places[i]].ljust(places[i])
        return line

    yield f'Model: "{model.name}"'
    yield "_" * length
    yield row(heads)
    yield "=" * length
    layers = model.layers
    for i, layer in enumerate(layers):
        try:
            shape: Any = layer.output_shape
        except AttributeError:
            shape = "multiple"
        fields = [
            f"{layer.name} ({type(layer).__name__})",
            shape,
            layer.count_params() if layer.built else "0 (unused)",
        ]
        if sequential:
            yield row(fields)
        else:
            nodes = [node for node in layer._inbound_nodes if any(node is n for n in model._nodes)]
            links = [f"{h.layer.name}[{h.node_index}][{h.tensor_index}]" for node in nodes for h in node.histories]
            yield row([*fields, links[0] if links else ""])
            for link in links[1:]:
                yield row(["", "", "", link])
        yield ("=" if i == len(layers) - 1 else "_") * length
    trained = sum(K.count_params(w) for w in getattr(model, "_collected_trainable_weights", model.trainable_weights))
    frozen = sum(K.count_params(w) for w in model.non_trainable_weights)
    yield f"Total params: {trained + frozen:,}"
    yield f"Trainable params: {trained:,}"
    yield f"Non-trainable params: {frozen:,}"
    yield "_" * length
