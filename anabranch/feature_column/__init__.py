"""``tf.feature_column``: columns that say how raw features become the inputs of a model.

A column is a value: it names features and what is done with them, and holds no tensor. `models` joins columns to dense
inputs, to a linear model and to the spec that `tf.parse_example` takes; `contract` says what a column has to have.
"""

from anabranch.core.contract import api
from anabranch.feature_column import (
    categorical,
    crossed,
    embedding,
    layer_inputs,
    numeric,
    sequence,
    vocabulary,
)

__all__ = ["categorical", "crossed", "embedding", "layer_inputs", "numeric", "sequence", "vocabulary"]
__getattr__, __dir__ = api.module_attributes("feature_column")
