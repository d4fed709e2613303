"""Names of the standard collections, selection of their items by scope, and how items are written into MetaGraphs.

A collection whose items are more than names (variables, savers, queue runners, control-flow contexts) registers here
how an item becomes a message and comes back from one: whoever defines the item's class calls
:func:`register_proto_function`, and :mod:`anabranch.train.meta_graph` finds it by the collection's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from anabranch.core import errors


class GraphKeys:
    """Standard names of graph collections, as TensorFlow 1.x has them."""

    GLOBAL_VARIABLES = "variables"
    VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"
    FEATURE_COLUMNS = "feature_columns"
    _SUMMARY_COLLECTION = "_SUMMARY_V2"
    _VARIABLE_COLLECTIONS = (
        GLOBAL_STEP,
        GLOBAL_VARIABLES,
        LOCAL_VARIABLES,
        METRIC_VARIABLES,
        MODEL_VARIABLES,
        TRAINABLE_VARIABLES,
        MOVING_AVERAGE_VARIABLES,
        CONCATENATED_VARIABLES,
        TRAINABLE_RESOURCE_VARIABLES,
    )
    _STREAMING_MODEL_PORTS = "streaming_model_ports"


def in_scope(items: Iterable[Any], scope: str) -> list[Any]:
    """Items whose ``name`` matches the regular expression ``scope`` from its start."""
    pattern = re.compile(scope)
    return [item for item in items if getattr(item, "name", None) and pattern.match(item.name)]


class ProtoFunctions(NamedTuple):
    """How the items of a collection are written and read."""

    proto_type: Any
    """Class of the message."""
    to_proto: Callable[..., Any] | None
    """``(item, export_scope=) -> message``, or None for an item outside the scope."""
    from_proto: Callable[..., Any] | None
    """``(message, import_scope=) -> item``."""


_proto_functions: dict[Any, ProtoFunctions] = {}


def register_proto_function(
    collection_name: Any,
    proto_type: Any = None,
    to_proto: Callable[..., Any] | None = None,
    from_proto: Callable[..., Any] | None = None,
) -> None:
    """Say how the items of a collection become messages of ``proto_type`` and come back from them.

    Raises:
        TypeError: ``to_proto`` or ``from_proto`` is not callable. KeyError: the collection has other functions.
    """
    for label, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if function is not None and not callable(function):
            raise TypeError(
                f"{label} must be callable.\n"
                + errors.message(f"{label}={function!r}", "a function or None", f"{label}=MyClass.{label}")
            )
    functions = ProtoFunctions(proto_type, to_proto, from_proto)
    if _proto_functions.setdefault(collection_name, functions) != functions:
        raise KeyError(
            f"Registering two proto functions with name '{collection_name}' !\n"
            + errors.message(
                f"other functions for the collection {collection_name!r}",
                "one pair of functions per collection",
                "use a collection of your own",
            )
        )


def proto_functions(collection_name: Any) -> ProtoFunctions | None:
    """What :func:`register_proto_function` was told about a collection, or None."""
    return _proto_functions.get(collection_name)
