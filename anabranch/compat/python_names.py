"""Names that Python's ``collections`` lost in version 3.10: ``collections.Iterable``, ``collections.Mapping``.

Only ``anabranch run`` provides them, through the module's own hook for missing names, so that nothing changes for code
that does not use them; the first use gives one warning.
"""

from __future__ import annotations

import collections
import collections.abc
import warnings
from typing import Any

from anabranch.core import errors


def provide() -> None:
    """Let ``collections`` answer for the abstract classes that it had until Python 3.9."""
    told = False

    def missing(name: str) -> Any:
        nonlocal told
        if name not in collections.abc.__all__:
            raise AttributeError(f"module 'collections' has no attribute {name!r}")
        if not told:
            told = True
            warnings.warn(
                errors.message(f"collections.{name}", "a name of Python 3.10 and later", f"collections.abc.{name}"),
                DeprecationWarning,
                stacklevel=2,
            )
        return getattr(collections.abc, name)

    vars(collections)["__getattr__"] = missing


def withdraw() -> None:
    """Undo :func:`provide`."""
    vars(collections).pop("__getattr__", None)
