"""``tf.compat``, and what lets programs for TensorFlow run unchanged.

- :mod:`anabranch.compat.tensorflow`: importing it makes ``import tensorflow`` mean Anabranch in this process.
- :mod:`anabranch.compat.hook`: the import hook; :mod:`anabranch.compat.internals`: the modules of TensorFlow that are
  not public and that programs import all the same.
- :mod:`anabranch.compat.old_numpy`: what NumPy lacks since.
- :mod:`anabranch.compat.python_names`: names that ``collections`` lacks since Python 3.10.
- :mod:`anabranch.compat.check`: what a program uses that is not there, without running it.
- :mod:`anabranch.compat.old_names`: names from before TensorFlow 1.0.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from anabranch.compat import text
from anabranch.core.contract import api

__all__ = ["text"]
_find, __dir__ = api.module_attributes("compat")
_modules = frozenset(module.name for module in pkgutil.iter_modules(__path__))


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}") if name in _modules else _find(name)
