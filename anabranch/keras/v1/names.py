"""Which names each namespace of ``tf.keras`` holds in a program of version 1.

What has to do with tensors is of this package. What computes with arrays and files alone (most data sets, generators
of images, texts and sequences, downloads) is Keras 3's own, from the installed package.
"""

from __future__ import annotations

import types
from typing import Any

from anabranch.core import errors
from anabranch.keras import loader, local_datasets
from anabranch.keras.v1 import (
    activations,
    applications,
    backend,
    backend_nn,
    confusion,
    constraints,
    downloads,
    graph_ops,
    initializers,
    layer,
    losses,
    metrics,
    model,
    optimizers,
    regularizers,
    saving,
    sequential,
    state,
    utilities,
)
from anabranch.keras.v1.fitting import callbacks, scikit_learn, tensorboard
from anabranch.keras.v1.layers import (
    activation_layers,
    attention,
    cells,
    convolutional,
    convolutional_recurrent,
    core,
    embeddings,
    feature_columns,
    inputs,
    merging,
    normalization,
    pooling,
    recurrent,
    wrappers,
)
from anabranch.keras.v1.optimizers import schedules
from anabranch.keras.v1.premade import linear, wide_deep

assert graph_ops is not None
_LAYER_MODULES = (
    core,
    convolutional,
    convolutional_recurrent,
    pooling,
    normalization,
    recurrent,
    cells,
    merging,
    embeddings,
    feature_columns,
    activation_layers,
    wrappers,
    attention,
)


def _of(*modules: Any, **more: Any) -> dict[str, Any]:
    """What modules define themselves, and what they call by other names."""
    found: dict[str, Any] = {}
    for module in modules:
        listed = getattr(module, "__all__", None)
        for name, item in vars(module).items():
            if name.startswith("_") or (listed is not None and name not in listed):
                continue
            home = getattr(item, "__module__", "")
            if isinstance(item, types.ModuleType) or name in ("annotations", "Any", "registry"):
                continue
            if listed is not None or home.startswith("anabranch.") or callable(item):
                found[name] = item
    return {**found, **more}


def _registered(registry: Any) -> dict[str, Any]:
    serialize, deserialize = registry.public_functions(registry.kind)
    return {"get": registry.get, "serialize": serialize, "deserialize": deserialize}


_layers = {
    name: item
    for name, item in layer.registry.objects.items()
    if name not in ("Model", "Sequential", "TensorFlowOpLayer")
}
_functions = ("add", "subtract", "multiply", "average", "maximum", "minimum", "concatenate", "dot", "merge")
_MODELS = {
    "Model": model.Model,
    "Sequential": sequential.Sequential,
    "clone_model": saving.clone_model,
    "load_model": saving.load_model,
    "model_from_config": saving.model_from_config,
    "model_from_json": saving.model_from_json,
    "model_from_yaml": saving.model_from_yaml,
    "save_model": saving.save_model,
}
_NAMES: dict[str, dict[str, Any]] = {
    "": {
        "Input": inputs.Input,
        "Model": model.Model,
        "Sequential": sequential.Sequential,
        "__version__": saving.VERSION,
    },
    "activations": {**_of(activations), **activations.registry.objects},
    "backend": {
        **backend._SAME,
        **_of(backend_nn),
        **_of(backend),
        **_of(state),
        "name_scope": backend.name_scope,
    },
    "callbacks": {**_of(callbacks), "TensorBoard": tensorboard.TensorBoard},
    "constraints": {**_of(constraints), **_registered(constraints.registry), **constraints.registry.objects},
    "estimator": {"model_to_estimator": utilities.model_to_estimator},
    "experimental": {
        "LinearModel": linear.LinearModel,
        "WideDeepModel": wide_deep.WideDeepModel,
        "export_saved_model": saving.export_saved_model,
        "load_from_saved_model": saving.load_from_saved_model,
        **{
            name: item
            for name, item in schedules.registry.objects.items()
            if name.endswith(("CosineDecay", "Restarts"))
        },
    },
    "initializers": {
        **{name: getattr(initializers, name) for name in initializers._NAMES},
        "get": initializers.get,
        "serialize": initializers.serialize,
        "deserialize": initializers.deserialize,
    },
    "layers": {
        **_layers,
        **{name: getattr(merging, name) for name in _functions},
        "Input": inputs.Input,
        "InputSpec": layer.InputSpec,
        "serialize": layer.registry.public_functions("layer")[0],
        "deserialize": layer.registry.deserialize,
    },
    "losses": {**_of(losses), "Reduction": losses.Reduction, "_registry": losses.registry},
    "metrics": {**_of(metrics), **_of(confusion), "_registry": metrics.registry},
    "mixed_precision.experimental": {"LossScaleOptimizer": optimizers.LossScaleOptimizer},
    "models": _MODELS,
    "optimizers": {
        **{name: item for name, item in optimizers.registry.objects.items() if name[0].isupper()},
        "Optimizer": optimizers.Optimizer,
        "TFOptimizer": optimizers.TFOptimizer,
        "get": optimizers.get,
        "serialize": optimizers.serialize,
        "deserialize": optimizers.deserialize,
    },
    "optimizers.schedules": {
        **{
            name: item
            for name, item in schedules.registry.objects.items()
            if name[0].isupper() and "Cosine" not in name
        },
        "LearningRateSchedule": schedules.LearningRateSchedule,
        "serialize": schedules.serialize,
        "deserialize": schedules.deserialize,
    },
    "regularizers": {**_of(regularizers), **_registered(regularizers.registry)},
    "utils": {**{name: getattr(utilities, name) for name in utilities.__all__}, "get_file": downloads.get_file},
    "datasets.fashion_mnist": {"load_data": local_datasets.load_fashion_mnist},
    "datasets.mnist": {"load_data": local_datasets.load_mnist},
    "wrappers.scikit_learn": {
        "KerasClassifier": scikit_learn.KerasClassifier,
        "KerasRegressor": scikit_learn.KerasRegressor,
    },
}
_OF_KERAS_3 = ("datasets", "preprocessing")
_APPLICATIONS = "applications"
_modules: dict[str, types.ModuleType] = {}


class _Namespace(types.ModuleType):
    """A namespace of ``tf.keras`` of version 1."""

    def __init__(self, path: str) -> None:
        super().__init__(f"anabranch.keras.{path}", f"Names of tf.keras.{path} in programs of version 1.")
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return find(self._path, name)

    def __dir__(self) -> list[str]:
        return listing(self._path)


def find(path: str, name: str) -> Any:
    """The object of that name in a namespace; AttributeError if there is none."""
    own = _NAMES.get(path, {})
    if name in own:
        return own[name]
    full = f"{path}.{name}".strip(".")
    if full == _APPLICATIONS or applications.is_module(path, name):
        return _modules.setdefault(full, _Namespace(full))
    if path.partition(".")[0] == _APPLICATIONS:
        return applications.find(path, name)
    if full in _NAMES or any(known.startswith(f"{full}.") for known in _NAMES):
        return _modules.setdefault(full, _Namespace(full))
    if full.partition(".")[0] in _OF_KERAS_3:
        return loader.find(path, name)
    shown = f"tf.keras.{full}"
    raise AttributeError(
        f"module 'anabranch.keras' has no attribute {name!r}\n"
        + errors.message(
            shown,
            "a name of tf.keras in TensorFlow 1",
            f"one of dir({shown.rpartition('.')[0]}), or import keras for Keras 3",
        ),
        name=name,
    )


def listing(path: str) -> list[str]:
    """Names in a namespace."""
    if path.partition(".")[0] in _OF_KERAS_3:
        return loader.listing(path)
    if path.partition(".")[0] == _APPLICATIONS:
        return applications.listing(path)
    start = f"{path}." if path else ""
    below = {known[len(start) :].partition(".")[0] for known in _NAMES if known.startswith(start) and known != path}
    more = (*_OF_KERAS_3, _APPLICATIONS) if not path else ()
    own = {name for name in _NAMES.get(path, {}) if not name.startswith("_")}
    return sorted({*own, *below, *more} - {""})
