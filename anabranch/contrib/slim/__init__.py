"""``tf.contrib.slim``: the layers, argument scopes and variables of ``tf.contrib`` under one name."""

from anabranch.contrib import framework, layers
from anabranch.core import api

_LAYERS = (
    "avg_pool2d", "batch_norm", "bias_add", "conv2d", "conv2d_transpose", "convolution2d", "convolution2d_transpose",
    "instance_norm", "one_hot_encoding", "separable_conv2d", "separable_convolution2d",
    "dropout", "flatten", "fully_connected", "l1_regularizer",
    "l2_regularizer", "l1_l2_regularizer", "layer_norm", "max_pool2d", "repeat", "softmax", "stack",
    "variance_scaling_initializer", "xavier_initializer", "xavier_initializer_conv2d",
)  # fmt: skip
_FRAMEWORK = (
    "add_arg_scope", "add_model_variable", "arg_scope", "arg_scoped_arguments", "assign_from_checkpoint",
    "assign_from_checkpoint_fn", "assign_from_values", "assign_from_values_fn", "filter_variables",
    "get_local_variables", "get_model_variables", "get_trainable_variables", "get_unique_variable", "get_variables",
    "get_variables_by_name", "get_variables_by_suffix", "get_variables_to_restore", "has_arg_scope", "local_variable",
    "model_variable", "variable",
)  # fmt: skip
for _home, _names in ((layers, _LAYERS), (framework, _FRAMEWORK)):
    for _name in _names:
        api.publish_as(f"contrib.slim.{_name}", getattr(_home, _name))
        if _home is layers:
            api.publish_as(f"contrib.slim.layers.{_name}", getattr(_home, _name))
        if _name.endswith(("_initializer", "_initializer_conv2d")):
            api.publish_as(f"contrib.slim.initializers.{_name}", getattr(_home, _name))
for _name in ("collect_named_outputs", "convert_collection_to_dict", "get_variable_collections"):
    api.publish_as(f"contrib.slim.utils.{_name}", api.names()[f"contrib.layers.utils.{_name}"])

__getattr__, __dir__ = api.module_attributes("contrib.slim")
