"""Random words, one after the other, for stages that draw."""

from __future__ import annotations

import numpy as np

from anabranch.ops.random import philox

FEW = 64
MANY = 4096
"""How many random words are made at once, at first and later."""


class RandomWords:
    """The 32-bit words of the Philox stream of two seeds, in order."""

    __slots__ = ("_block", "_key", "_next", "_position", "seed", "seed2")

    def __init__(self, seed: int, seed2: int) -> None:
        self.seed = seed
        self.seed2 = seed2
        self._key = np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)
        self._position = 0
        """Words that have been made into blocks."""
        self._block = np.zeros(0, np.int64)
        self._next = 0

    def take(self, count: int) -> np.ndarray:
        """The next ``count`` words, as int64."""
        if len(self._block) - self._next < count:
            size = max(MANY if self._position else FEW, count)
            size += -size % 4
            first = self._position // 4
            counter = [first & 0xFFFFFFFF, first >> 32, self.seed2 & 0xFFFFFFFF, (self.seed2 >> 32) & 0xFFFFFFFF]
            words = philox.host_words((self._key, np.array(counter, np.uint32)), size).astype(np.int64)
            self._block = np.concatenate([self._block[self._next :], words])
            self._next = 0
            self._position += size
        words = self._block[self._next : self._next + count]
        self._next += count
        return words

    @property
    def drawn(self) -> int:
        """How many words have been given out."""
        return self._position - (len(self._block) - self._next)

    def go_to(self, drawn: int) -> None:
        """Go to the place where ``drawn`` words have been given out."""
        self._position = drawn - drawn % 4
        self._block = np.zeros(0, np.int64)
        self._next = 0
        if drawn % 4:
            self.take(drawn % 4)
