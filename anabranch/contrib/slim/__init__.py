"""``tf.contrib.slim``: layers, scopes, variables, losses and metrics under one name; training loops and nets."""

import types

from anabranch.contrib import framework, layers, losses, metrics
from anabranch.contrib.slim import (
    data_decoder,
    data_provider,
    dataset,
    evaluation,
    learning,
    model_analyzer,
    nets,
    parallel_reader,
    queues,
    summaries,
    tfexample_decoder,
)
from anabranch.core.contract import api

_FRAMEWORK = (
    "add_arg_scope", "add_model_variable", "arg_scope", "arg_scope_func_key", "arg_scoped_arguments",
    "assert_global_step", "assert_or_get_global_step", "assign_from_checkpoint", "assign_from_checkpoint_fn",
    "assign_from_values", "assign_from_values_fn", "create_global_step", "current_arg_scope", "filter_variables",
    "get_global_step", "get_local_variables", "get_model_variables", "get_or_create_global_step",
    "get_trainable_variables", "get_unique_variable", "get_variable_full_name", "get_variables",
    "get_variables_by_name", "get_variables_by_suffix", "get_variables_to_restore", "global_variable",
    "has_arg_scope", "local_variable", "model_variable", "variable", "VariableDeviceChooser",
)  # fmt: skip
for _name in _FRAMEWORK:
    api.publish_as(f"contrib.slim.{_name}", getattr(framework, _name))
for _name, _object in [(name, getattr(layers, name)) for name in dir(layers)]:
    if isinstance(_object, types.ModuleType):
        continue
    api.publish_as(f"contrib.slim.{_name}", _object)
    api.publish_as(f"contrib.slim.layers.{_name}", _object)
    if "initializer" in _name:
        api.publish_as(f"contrib.slim.initializers.{_name}", _object)
    if "regulariz" in _name:
        api.publish_as(f"contrib.slim.regularizers.{_name}", _object)
for _name, _object in list(api.namespace("contrib.layers.utils").items()):
    api.publish_as(f"contrib.slim.utils.{_name}", _object)
# Programs also name the modules in which TensorFlow 1 had these functions.
for _home in ("contrib.slim", "contrib.slim.python.slim"):
    for _module in (evaluation, learning, model_analyzer, nets, queues, summaries):
        api.publish_as(f"{_home}.{_module.__name__.rpartition('.')[2]}", _module)
for _home in ("contrib.slim", "contrib.slim.data", "contrib.slim.python.slim.data"):
    for _module in (data_decoder, data_provider, dataset, parallel_reader, tfexample_decoder):
        api.publish_as(f"{_home}.{_module.__name__.rpartition('.')[2]}", _module)
    api.publish_as(f"{_home}.dataset_data_provider.DatasetDataProvider", data_provider.DatasetDataProvider)
    api.publish_as(f"{_home}.prefetch_queue.prefetch_queue", queues.prefetch_queue)
api.publish_as("contrib.slim.losses", losses)
api.publish_as("contrib.slim.metrics", metrics)

__all__ = [
    "data_decoder",
    "data_provider",
    "dataset",
    "evaluation",
    "learning",
    "model_analyzer",
    "nets",
    "parallel_reader",
    "queues",
    "summaries",
    "tfexample_decoder",
]
__getattr__, __dir__ = api.module_attributes("contrib.slim")
