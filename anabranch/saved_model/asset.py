"""Files that belong to a model: `tf.saved_model.Asset`."""

from __future__ import annotations

import os
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.convert import constant
from anabranch.variables.tracking import Trackable


@public("saved_model.Asset")
class Asset(Trackable):
    """A file that is copied into a SavedModel with the object that has it as an attribute.

    Args:
        path: the file's path.

    Example::

        model.words = tf.saved_model.Asset("words.txt")
        # in a function of the model: tf.io.read_file(self.words.asset_path)
    """

    def __init__(self, path: Any) -> None:
        self._path = path if hasattr(path, "dtype") else constant(os.fspath(path))

    @property
    def asset_path(self) -> Any:
        """The path, a string tensor; of a model that was loaded, that of the model's own copy."""
        return self._path
