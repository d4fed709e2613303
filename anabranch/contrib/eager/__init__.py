"""``tf.contrib.eager``: eager mode's names before they became TensorFlow's own.

Most of them are those of :mod:`anabranch.eager`, under older names. The rest is here: metrics and networks that hold
their variables, functions that are called after each op, and savers and iterators for where ops run at once.
"""

import anabranch as tf
from anabranch.contrib.eager import execution, execution_callbacks, iterators, metrics, network, saver
from anabranch.core.contract import api
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.eager import mode, scopes
from anabranch.variables.resource_variable import ResourceVariable
from anabranch.variables.tracking import AutoTrackable

__all__ = ["execution", "execution_callbacks", "iterators", "metrics", "network", "saver"]
_OWN = {
    "Variable": ResourceVariable,
    "TensorSpec": TensorSpec,
    "Checkpointable": AutoTrackable,
    "custom_gradient": tf.custom_gradient,
    "executing_eagerly": mode.executing_eagerly,
    "in_eager_mode": mode.executing_eagerly,
    "py_func": tf.py_function,
    "SYNC": mode.SYNC,
    "ASYNC": mode.ASYNC,
    "DEVICE_PLACEMENT_EXPLICIT": scopes.DEVICE_PLACEMENT_EXPLICIT,
    "DEVICE_PLACEMENT_WARN": scopes.DEVICE_PLACEMENT_WARN,
    "DEVICE_PLACEMENT_SILENT": scopes.DEVICE_PLACEMENT_SILENT,
    "enable_remote_eager_execution": mode.enable_eager_execution,
}
for _name, _object in _OWN.items():
    api.publish_as(f"contrib.eager.{_name}", _object)
__getattr__, __dir__ = api.module_attributes("contrib.eager")
