"""``tensorflow.python.ops.resources``: resources other than variables, in collections of the graph.

A resource is registered with the operation that makes it and with a tensor that says whether it has been made. Whoever
initialises a program (a ``Scaffold``, a ``Supervisor``) finds them by their collections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.ops.state.registered import register_resource

__all__ = [
    "initialize_resources",
    "local_resources",
    "register_resource",
    "report_uninitialized_resources",
    "shared_resources",
]


def shared_resources() -> list[Any]:
    """The resources that all tasks see."""
    return list(tf.get_collection(tf.GraphKeys.RESOURCES))


def local_resources() -> list[Any]:
    """The resources of one session."""
    return list(tf.get_collection(tf.GraphKeys.LOCAL_RESOURCES))


def report_uninitialized_resources(
    resource_list: Sequence[Any] | None = None, name: str = "report_uninitialized_resources"
) -> Any:
    """The names of the handles of resources that have not been made, ``[n]``.

    Args:
        resource_list: the resources; shared and local ones if None.
        name: name scope.
    """
    resources = shared_resources() + local_resources() if resource_list is None else list(resource_list)
    with tf.name_scope(name):
        if not resources:
            return tf.constant([], tf.string)
        missing = tf.logical_not(tf.stack([one.is_initialized for one in resources]))
        missing.set_shape([len(resources)])  # each says it for one resource, also where its own shape is unknown
        return tf.boolean_mask(tf.constant([one.handle.name for one in resources]), missing)


def initialize_resources(resource_list: Sequence[Any], name: str = "init") -> Any:
    """An operation that makes resources; it does nothing if there are none."""
    return tf.group(*[one.create for one in resource_list], name=name) if resource_list else tf.no_op(name)
