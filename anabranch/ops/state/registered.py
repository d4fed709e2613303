"""Resources other than variables, in collections of the graph, so that whoever initialises a program finds them."""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph


class Resource(NamedTuple):
    """A resource, with the operation that makes it and a tensor that says whether it has been made."""

    handle: Any
    create: Any
    is_initialized: Any


def register_resource(handle: Any, create_op: Any, is_initialized_op: Any, is_shared: bool = True) -> None:
    """Add a resource to the collection of shared ones, or of those of one session.

    Args:
        handle: tensor of its handle.
        create_op: operation that makes it.
        is_initialized_op: scalar bool tensor: whether it has been made.
        is_shared: whether all tasks see it.
    """
    key = GraphKeys.RESOURCES if is_shared else GraphKeys.LOCAL_RESOURCES
    get_default_graph().add_to_collection(key, Resource(handle, create_op, is_initialized_op))
