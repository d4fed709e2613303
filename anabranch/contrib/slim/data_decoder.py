"""``slim.data_decoder``: what turns a record into the tensors of its items."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any


class DataDecoder(abc.ABC):
    """A decoder, to be subclassed."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Sequence[str]) -> list[Any]:
        """The tensors of items of a record."""

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """The names of the items."""
