"""``tf.contrib.model_pruning``: weights with masks, of which ever more small ones become zero as training goes on.

A layer or :func:`~anabranch.contrib.model_pruning.masks.apply_mask` puts a mask of zeros and ones over its weights, and
:class:`~anabranch.contrib.model_pruning.pruning.Pruning` makes the op that moves the masks (Zhu and Gupta, 2017).
"""

from anabranch.contrib.model_pruning import cells, core_layers, frozen_graphs, layers, learning, masks, pruning
from anabranch.core.contract import api

__all__ = ["cells", "core_layers", "frozen_graphs", "layers", "learning", "masks", "pruning"]
__getattr__, __dir__ = api.module_attributes("contrib.model_pruning")
