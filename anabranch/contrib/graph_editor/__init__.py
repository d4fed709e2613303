"""``tf.contrib.graph_editor``: parts of graphs selected, rerouted, detached, connected and copied.

TensorFlow has these functions in six modules too (``util``, ``select``, ``subgraph``, ``reroute``, ``edit``,
``transform``), which are all this one.
"""

from __future__ import annotations

import sys

from anabranch.contrib.graph_editor import copying, elements, rerouting, selection, views
from anabranch.core.contract import api

__all__ = ["copying", "elements", "rerouting", "selection", "views"]
__getattr__, __dir__ = api.module_attributes("contrib.graph_editor")
util = select = subgraph = reroute = edit = transform = sys.modules[__name__]
