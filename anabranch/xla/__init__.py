"""From ops to XLA: traced kernels, programs, and the executables that run them.

The only packages that import jax are this one and those above.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.contract import api

_find, _ = api.module_attributes("xla")


def __getattr__(name: str) -> Any:
    """``tf.xla.experimental``, which a part above publishes. Modules of this package are found without it."""
    if name != "experimental":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _find(name)
