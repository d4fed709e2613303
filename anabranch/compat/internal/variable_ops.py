"""``python.ops.state_ops``: variables as their reference alone, which programs assign themselves."""

from __future__ import annotations

from typing import Any

import anabranch as tf


def variable_op(
    shape: Any, dtype: Any, name: str = "Variable", set_shape: bool = True, container: str = "", shared_name: str = ""
) -> Any:
    """The reference of a variable, of unknown shape unless ``set_shape``."""
    known = tf.TensorShape(shape if set_shape else None)
    ref = tf.build_op("Variable", shape=known, dtype=dtype, name=name, container=container, shared_name=shared_name)
    if set_shape:
        ref.set_shape(known)
    return ref


def variable_op_v2(shape: Any, dtype: Any, name: str = "Variable", container: str = "", shared_name: str = "") -> Any:
    """The reference of a variable of a shape, which may be partly known."""
    return tf.build_op("VariableV2", shape=shape, dtype=dtype, name=name, container=container, shared_name=shared_name)


def init_variable(v: Any, init: Any, name: str = "init") -> Any:
    """The operation that gives a reference its first value: a tensor, or what a function of shape and dtype makes."""
    with tf.name_scope(None, v.op.name + "/", [v, init]), tf.name_scope(name) as scope, tf.colocate_with(v):
        value = init(v.get_shape().as_list(), v.dtype.base_dtype) if callable(init) else init
        return tf.assign(v, tf.convert_to_tensor(value, name="value" if callable(init) else "init"), name=scope)
