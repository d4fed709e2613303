"""Op definitions by family. Importing the package imports none of them; :func:`load_all` imports all."""

from __future__ import annotations

import importlib
import pkgutil

_loaded = False


def load_all() -> None:
    """Import every family, so that the registry and the table of public names are complete."""
    global _loaded
    if not _loaded:
        _loaded = True
        for module in pkgutil.walk_packages(__path__, __name__ + "."):
            importlib.import_module(module.name)
