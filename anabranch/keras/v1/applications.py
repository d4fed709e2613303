"""The models of ``tf.keras.applications`` for programs of version 1: Keras' own functions, on layers of version 1.

Keras 3 builds its models of layers whose outputs are not tensors of a graph. The functions that build them name
layers, the class of the model and little else; here they run with the names that stand for these in version 1, so that
a model's inputs and outputs are tensors of the graph, and its layers those that programs go on with. Nothing is
fetched: ``weights`` names a file.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras import loader
from anabranch.keras.v1 import layer, model, network, state
from anabranch.keras.v1.layers import core, inputs, merging, pooling

# Module of Keras by the name that programs know it by.
_MODULES = {
    "densenet": "densenet",
    "imagenet_utils": "imagenet_utils",
    "inception_resnet_v2": "inception_resnet_v2",
    "inception_v3": "inception_v3",
    "mobilenet": "mobilenet",
    "mobilenet_v2": "mobilenet_v2",
    "nasnet": "nasnet",
    "resnet": "resnet",
    "resnet50": "resnet",
    "resnet_v2": "resnet_v2",
    "vgg16": "vgg16",
    "vgg19": "vgg19",
    "xception": "xception",
}
_MODELS = {
    "DenseNet121": "densenet",
    "DenseNet169": "densenet",
    "DenseNet201": "densenet",
    "InceptionResNetV2": "inception_resnet_v2",
    "InceptionV3": "inception_v3",
    "MobileNet": "mobilenet",
    "MobileNetV2": "mobilenet_v2",
    "NASNetLarge": "nasnet",
    "NASNetMobile": "nasnet",
    "ResNet101": "resnet",
    "ResNet101V2": "resnet_v2",
    "ResNet152": "resnet",
    "ResNet152V2": "resnet_v2",
    "ResNet50": "resnet",
    "ResNet50V2": "resnet_v2",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "Xception": "xception",
}
_SHARED = ("preprocess_input", "decode_predictions")


@layer.registry.add("CustomScaleLayer")
class ScaledSum(layer.Layer):
    """The first input and ``scale`` times the second one.

    Args:
        scale: factor of the second input.
    """

    def __init__(self, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, inputs: Any) -> Any:
        """Compute the output."""
        return inputs[0] + inputs[1] * self.scale

    def get_config(self) -> dict[str, Any]:
        """What makes the layer again."""
        return {**super().get_config(), "scale": self.scale}


def _pooled(keepdims: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Averages of images; with ``keepdims`` as images of one pixel, which version 1 makes by a layer of its own."""
    pool = pooling.GlobalAveragePooling2D(**options)
    if not keepdims:
        return pool

    def pooled(inputs: Any) -> Any:
        means = pool(inputs)
        size = int(means.shape[-1])
        first = state.image_data_format() == "channels_first"
        return core.Reshape((size, 1, 1) if first else (1, 1, size))(means)

    return pooled


def _correct_pad(inputs: Any, kernel_size: Any) -> Any:
    """Zeros before and after rows and columns, so that windows with stride 2 stand as in ``SAME``."""
    first = 2 if state.image_data_format() == "channels_first" else 1
    kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
    sizes = inputs.shape.as_list()[first : first + 2]
    moved = (1, 1) if sizes[0] is None else tuple(1 - size % 2 for size in sizes)
    return tuple((size // 2 - by, size // 2) for size, by in zip(kernel, moved, strict=True))


_NAMES = {"densenet": {"conv1_conv": "conv1/conv", "conv1_bn": "conv1/bn"}}
"""Names that layers have in version 1, where Keras 3 has others."""


class _Layers(types.SimpleNamespace):
    """The layers of version 1 by name, for the models of a module."""

    GlobalAveragePooling2D = staticmethod(_pooled)
    Input = staticmethod(inputs.Input)
    add = staticmethod(merging.add)
    concatenate = staticmethod(merging.concatenate)

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self._names = names

    def __getattr__(self, name: str) -> Any:
        kind = layer.registry.objects[name]
        if not self._names:
            return kind

        def make(*args: Any, **options: Any) -> Any:
            given = options.get("name", "")
            return kind(*args, **{**options, "name": self._names.get(given, given) or None})

        return make


_modules: dict[str, types.SimpleNamespace] = {}


def _module(name: str) -> types.SimpleNamespace:
    """A module of Keras whose functions name what there is in version 1."""
    if name in _modules:
        return _modules[name]
    loader.keras()
    original = importlib.import_module(f"keras.src.applications.{name}")
    names = dict(vars(original))
    for key, item in vars(original).items():
        if isinstance(item, types.FunctionType) and item.__module__ == original.__name__:
            function = types.FunctionType(item.__code__, names, key, item.__defaults__, item.__closure__)
            function.__kwdefaults__, function.__doc__ = item.__kwdefaults__, item.__doc__
            names[key] = function
    names.update(
        layers=_Layers(_NAMES.get(name, {})),
        Functional=model.Model,
        CustomScaleLayer=ScaledSum,
        operation_utils=types.SimpleNamespace(get_source_inputs=network.get_source_inputs),
    )
    if name == "imagenet_utils":
        names["correct_pad"] = _correct_pad
    else:
        names["backend"] = types.SimpleNamespace(
            image_data_format=state.image_data_format,
            is_keras_tensor=lambda tensor: hasattr(tensor, "_keras_history"),
            name_scope=tf.name_scope,
            backend=lambda: "anabranch",
        )
        names["imagenet_utils"] = _module("imagenet_utils")
        if "resnet" in names and name != "resnet":
            names["resnet"] = _module("resnet")
    _modules[name] = types.SimpleNamespace(**names)
    return _modules[name]


def find(path: str, name: str) -> Any:
    """What ``tf.keras.applications`` has below a path by that name; AttributeError if there is nothing."""
    below = path.partition(".")[2]
    if not below and name in _MODELS:
        return getattr(_module(_MODELS[name]), name)
    known = [key for key, home in _MODELS.items() if home == _MODULES.get(below)]
    if below in _MODULES and (name in known or name in _SHARED):
        return getattr(_module(_MODULES[below]), name)
    raise AttributeError(
        f"module 'anabranch.keras' has no attribute {name!r}\n"
        + errors.message(
            f"tf.keras.{path}.{name}",
            "a name of tf.keras.applications in TensorFlow 1",
            f"one of dir(tf.keras.{path}), or keras.applications for Keras 3",
        ),
        name=name,
    )


def listing(path: str) -> list[str]:
    """The names below a path."""
    below = path.partition(".")[2]
    if not below:
        return sorted([*_MODELS, *_MODULES])
    return sorted([*[key for key, home in _MODELS.items() if home == _MODULES.get(below)], *_SHARED])


def is_module(path: str, name: str) -> bool:
    """Whether a name is a module of ``tf.keras.applications``."""
    return path == "applications" and name in _MODULES
