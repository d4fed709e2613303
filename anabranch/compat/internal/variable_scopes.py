"""Names of ``tensorflow.python.ops.variable_scope`` that are not public: scopes of variables alone."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.variables.partitioned import PartitionInfo
from anabranch.variables.scope import PureScope

_PartitionInfo = PartitionInfo
EagerVariableStore = tf.contrib.eager.EagerVariableStore


def _pure_variable_scope(
    name_or_scope: Any,
    reuse: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    old_name_scope: str | None = None,
    dtype: Any = tf.float32,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> PureScope:
    """A scope of variables that opens no scope of names; the arguments are those of ``tf.variable_scope``."""
    settings = {
        "initializer": initializer,
        "regularizer": regularizer,
        "caching_device": caching_device,
        "partitioner": partitioner,
        "custom_getter": custom_getter,
        "dtype": dtype,
        "use_resource": use_resource,
        "constraint": constraint,
    }
    return PureScope(name_or_scope, reuse, settings, old_name_scope)
