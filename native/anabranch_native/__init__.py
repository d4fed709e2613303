"""The handler in C that XLA calls for convolutions by oneDNN, as a shared library; see native/README.md."""

from __future__ import annotations

from pathlib import Path


def path() -> Path:
    """Where the shared library is."""
    return next(Path(__file__).parent.glob("_onednn_handler*.so"))
