"""Assets of TensorBoard's plugins: files that a plugin finds beside the events.

A graph has one asset of each class, in a collection. A ``FileWriter`` that writes the graph writes the assets of it to
``LOGDIR/plugins/PLUGIN/NAME``.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, ClassVar

from anabranch.core import errors
from anabranch.core.graph.graph import Graph, get_default_graph

_PREFIX = "__tensorboard_plugin_asset__"
PLUGINS_DIR = "plugins"
"""Folder of the assets under that of the events."""


class PluginAsset:
    """Base class of assets; a subclass has the name of its plugin and says what the files hold."""

    plugin_name: ClassVar[str | None] = None

    @abstractmethod
    def assets(self) -> dict[str, Any]:
        """Contents of the files, str or bytes, by name."""
        raise NotImplementedError


def get_plugin_asset(plugin_asset_cls: Any, graph: Graph | None = None) -> Any:
    """The asset of a class that a graph has; it is made when it is asked for first.

    Args:
        plugin_asset_cls: subclass of :class:`PluginAsset`.
        graph: the graph; the default graph if None.

    Raises:
        ValueError: the class has no plugin name, or another class has the same one.
    """
    graph = graph or get_default_graph()
    plugin = plugin_asset_cls.plugin_name
    if not plugin:
        raise ValueError(
            f"Class {plugin_asset_cls.__name__} has no plugin_name\n"
            + errors.message("an asset without the name of its plugin", "a name", "plugin_name = 'projector'")
        )
    there = graph.get_collection(_PREFIX + plugin)
    if not there:
        asset = plugin_asset_cls()
        graph.add_to_collection(_PREFIX + plugin, asset)
        graph.add_to_collection(_PREFIX, plugin)
        return asset
    if not isinstance(there[0], plugin_asset_cls):
        raise ValueError(
            f"Plugin name collision between classes {plugin_asset_cls.__name__} and {type(there[0]).__name__}\n"
            + errors.message(
                f"two classes for plugin {plugin!r}", "one class for each plugin", "plugin_name = 'another'"
            )
        )
    return there[0]


def get_all_plugin_assets(graph: Graph | None = None) -> list[Any]:
    """All assets of a graph, in the order in which they were made."""
    graph = graph or get_default_graph()
    return [graph.get_collection(_PREFIX + plugin)[0] for plugin in graph.get_collection(_PREFIX)]


def write(graph: Graph, logdir: str) -> None:
    """Write the assets of a graph below the folder of its events."""
    for asset in get_all_plugin_assets(graph):
        folder = os.path.join(logdir, PLUGINS_DIR, asset.plugin_name)
        os.makedirs(folder, exist_ok=True)
        for name, contents in asset.assets().items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(contents.encode() if isinstance(contents, str) else contents)
