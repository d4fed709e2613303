"""``tf.keras.initializers`` of version 1: the initializers of variables, with Keras' defaults and configs."""

from __future__ import annotations

from typing import Any

from anabranch.keras.v1.objects import Registry
from anabranch.variables import initializers as base

registry = Registry("initializer", makers=True)


def _named(cls: Any, keras_name: str, **defaults: Any) -> Any:
    """A class of initializers under Keras' name, with other defaults."""

    class Initializer(cls):
        _keras_name = keras_name

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            names = cls.__init__.__code__.co_varnames[1:]
            given = dict(zip(names, args, strict=False))
            super().__init__(**{**defaults, **given, **kwargs})

    Initializer.__name__ = Initializer.__qualname__ = keras_name
    Initializer.__doc__ = cls.__doc__
    return Initializer


Initializer = base.Initializer
Zeros = zeros = base.Zeros
Ones = ones = base.Ones
Constant = constant = base.Constant
RandomUniform = _named(base.RandomUniform, "RandomUniform", minval=-0.05, maxval=0.05)
RandomNormal = _named(base.RandomNormal, "RandomNormal", mean=0.0, stddev=0.05)
TruncatedNormal = _named(base.TruncatedNormal, "TruncatedNormal", mean=0.0, stddev=0.05)
VarianceScaling = base.VarianceScaling
Orthogonal = orthogonal = base.Orthogonal
Identity = identity = base.Identity
glorot_uniform, glorot_normal = base.GlorotUniform, base.GlorotNormal
he_normal, he_uniform = base.he_normal, base.he_uniform
lecun_normal, lecun_uniform = base.lecun_normal, base.lecun_uniform
uniform = random_uniform = RandomUniform
normal = random_normal = RandomNormal
truncated_normal = TruncatedNormal

_NAMES = [
    "Constant",
    "Identity",
    "Initializer",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "uniform",
    "zeros",
]
registry.objects.update({name: globals()[name] for name in _NAMES})
registry.objects.update(
    zero=zeros, one=ones, GlorotUniform=glorot_uniform, GlorotNormal=glorot_normal, variance_scaling=VarianceScaling
)

serialize, deserialize = registry.public_functions("initializer")


def get(identifier: Any) -> Any:
    """An initializer by its name or config."""
    found = registry.get(identifier)
    return found() if isinstance(found, type) else found
