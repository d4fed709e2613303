"""``tf.contrib.layers``: layers as functions that take defaults from argument scopes, regularizers, initializers."""

from anabranch.contrib.layers import (
    batch_normalization,
    convolutions,
    dense,
    divisive,
    embeddings,
    initializers,
    normalization,
    optimizers,
    output_collections,
    regularizers,
    repetition,
    reversible,
    separable_and_transposed,
    shapes,
    static_values,
    summaries,
)
from anabranch.core.contract import api

__all__ = [
    "batch_normalization",
    "convolutions",
    "dense",
    "divisive",
    "embeddings",
    "initializers",
    "normalization",
    "optimizers",
    "output_collections",
    "regularizers",
    "repetition",
    "reversible",
    "separable_and_transposed",
    "shapes",
    "static_values",
    "summaries",
]
__getattr__, __dir__ = api.module_attributes("contrib.layers")

# Programs also name the modules in which TensorFlow 1 had these functions.
_HOME = "contrib.layers."
for _name, _object in list(api.namespace("contrib.layers").items()):
    api.publish_as(f"{_HOME}python.layers.{_name}", _object)
    if "initializer" in _name:
        api.publish_as(f"{_HOME}python.layers.initializers.{_name}", _object)
    if "regulariz" in _name:
        api.publish_as(f"{_HOME}regularizers.{_name}", _object)
    if _name.startswith("summarize_"):
        api.publish_as(f"{_HOME}summaries.{_name}", _object)
for _name, _object in api.namespace("contrib.layers.utils").items():
    api.publish_as(f"{_HOME}python.layers.utils.{_name}", _object)
