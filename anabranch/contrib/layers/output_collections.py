"""Collections of outputs: the names that outputs have there, and the collections that variables go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public


@public("contrib.layers.utils.collect_named_outputs")
def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """The outputs, added to collections under a further name of theirs."""
    if collections:
        append_tensor_alias(outputs, alias)
        for name in [collections] if isinstance(collections, str) else collections:
            tf.add_to_collection(name, outputs)
    return outputs


@public("contrib.layers.utils.append_tensor_alias")
def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """The tensor, with a further name."""
    tensor.aliases = [*getattr(tensor, "aliases", []), alias.rstrip("/")]
    return tensor


@public("contrib.layers.utils.get_tensor_aliases")
def get_tensor_aliases(tensor: Any) -> list[str]:
    """The further names of a tensor; the name of its operation if it has none."""
    aliases = getattr(tensor, "aliases", None)
    return list(aliases) if aliases else [tensor.op.name]


@public("contrib.layers.utils.gather_tensors_aliases")
def gather_tensors_aliases(tensors: Sequence[Any]) -> list[str]:
    """The further names of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


@public("contrib.layers.utils.convert_collection_to_dict")
def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """The tensors of a collection by alias."""
    by_alias: dict[str, Any] = {}
    for item in tf.get_collection(collection):
        for alias in get_tensor_aliases(item):
            by_alias[alias] = item
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return by_alias


@public("contrib.layers.utils.get_variable_collections")
def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """Collections of one variable: those in a dictionary under its name, or all."""
    return variables_collections.get(name) if isinstance(variables_collections, dict) else variables_collections
