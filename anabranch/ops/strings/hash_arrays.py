"""Hashes of many strings as NumPy calls on all of them.

The definitions, one string at a time in Python's integers, are in ``hashes.py``; they take 1 to 10 microseconds a
string, and feature columns hash thousands in a step. Here the strings lie end to end in one buffer, words are read
from it at any byte, and strings whose hash takes the same steps are hashed together: FarmHash has a formula for each
class of lengths, SipHash and the old hash take one step for each word. A few strings, and those beyond 64 bytes for
FarmHash, are left to the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FEW = 24
"""Strings that are hashed sooner one by one."""
LONGEST = 64
"""Bytes up to which FarmHash's formulas for short strings go."""
_K0, _K1, _K2 = np.uint64(0xC3A5C85C97CB3127), np.uint64(0xB492B66FBE98F273), np.uint64(0x9AE16A3B2F90404F)
_CLASS_OF = np.array([0] + [1] * 3 + [2] * 4 + [3] * 9 + [4] * 16 + [5] * 32 + [6], np.int64)
"""By length: none, 1 to 3, 4 to 7, 8 to 16, 17 to 32, 33 to 64 bytes, more."""


class _Texts:
    """Strings end to end."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        self.starts = np.cumsum(self.sizes) - self.sizes
        self._buffer = b"".join(texts) + bytes(8)
        self.bytes = np.frombuffer(self._buffer, np.uint8)

    def words(self, at: Any, size: int = 8) -> Any:
        """The little-endian words of ``size`` bytes at places of the buffer, as 64 bits."""
        held = np.ndarray((len(self._buffer) - size + 1,), f"<u{size}", self._buffer, 0, (1,))
        found = held[at]
        return found if size == 8 else found.astype(np.uint64)


def _rotated(value: Any, by: int) -> Any:
    return (value >> np.uint64(by)) | (value << np.uint64(64 - by))


def _mixed(value: Any) -> Any:
    return value ^ (value >> np.uint64(47))


def _hash16(u: Any, v: Any, mul: Any) -> Any:
    a = _mixed((u ^ v) * mul)
    return _mixed((v ^ a) * mul) * mul


def _of_1_to_3(texts: _Texts, at: Any, size: Any) -> Any:
    first, middle, last = (texts.bytes[place].astype(np.uint64) for place in (at, at + (size >> 1), at + size - 1))
    y = first + (middle << np.uint64(8))
    z = size.astype(np.uint64) + (last << np.uint64(2))
    return _mixed((y * _K2) ^ (z * _K0)) * _K2


def _of_4_to_7(texts: _Texts, at: Any, size: Any) -> Any:
    count = size.astype(np.uint64)
    low = count + (texts.words(at, 4) << np.uint64(3))
    return _hash16(low, texts.words(at + size - 4, 4), _K2 + count * np.uint64(2))


def _of_8_to_16(texts: _Texts, at: Any, size: Any) -> Any:
    mul = _K2 + size.astype(np.uint64) * np.uint64(2)
    a, b = texts.words(at) + _K2, texts.words(at + size - 8)
    return _hash16(_rotated(b, 37) * mul + a, (_rotated(a, 25) + b) * mul, mul)


def _of_17_to_32(texts: _Texts, at: Any, size: Any) -> Any:
    mul = _K2 + size.astype(np.uint64) * np.uint64(2)
    a, b = texts.words(at) * _K1, texts.words(at + 8)
    c, d = texts.words(at + size - 8) * mul, texts.words(at + size - 16) * _K2
    return _hash16(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, mul)


def _of_33_to_64(texts: _Texts, at: Any, size: Any) -> Any:
    mul = _K2 + size.astype(np.uint64) * np.uint64(2)
    end = at + size
    a, b = texts.words(at) * _K2, texts.words(at + 8)
    c, d = texts.words(end - 8) * mul, texts.words(end - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _hash16(y, a + _rotated(b + _K2, 18) + c, mul)
    e, f = texts.words(at + 16) * mul, texts.words(at + 24)
    g, h = (y + texts.words(end - 32)) * mul, (z + texts.words(end - 24)) * mul
    return _hash16(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, mul)


_FORMULAS: tuple[Callable[[_Texts, Any, Any], Any], ...] = (
    lambda texts, at, size: np.full(len(at), _K2),
    _of_1_to_3,
    _of_4_to_7,
    _of_8_to_16,
    _of_17_to_32,
    _of_33_to_64,
)


def fingerprints(texts: Sequence[bytes], of_long: Callable[[bytes], int]) -> np.ndarray:
    """FarmHash's Fingerprint64 of strings, uint64; ``of_long`` gives those of strings beyond `LONGEST`."""
    held = _Texts(texts)
    kinds = _CLASS_OF.take(held.sizes, mode="clip")
    counts = np.bincount(kinds, minlength=len(_FORMULAS) + 1)
    result = np.empty(len(texts), np.uint64)
    for kind, formula in enumerate(_FORMULAS):
        if counts[kind] == len(texts):
            return formula(held, held.starts, held.sizes)  # type: ignore[no-any-return]
        if counts[kind]:
            at = np.flatnonzero(kinds == kind)
            result[at] = formula(held, held.starts[at], held.sizes[at])
    if counts[-1]:
        for i in np.flatnonzero(kinds == len(_FORMULAS)).tolist():
            result[i] = of_long(texts[i])
    return result


def _by_words(texts: Sequence[bytes], hashed: Callable[[_Texts, Any, Any, int], Any]) -> np.ndarray:
    """What a function gives for all strings that have equally many whole words."""
    held = _Texts(texts)
    whole = held.sizes >> 3
    result = np.empty(len(texts), np.uint64)
    for count in np.unique(whole).tolist():
        at = np.flatnonzero(whole == count)
        result[at] = hashed(held, held.starts[at], held.sizes[at], count)
    return result


def _rest(held: _Texts, start: Any, size: Any, count: int) -> Any:
    """The bytes behind the whole words, as a word."""
    bits = ((size & 7) << 3).astype(np.uint64)
    return held.words(start + 8 * count) & ((np.uint64(1) << bits) - np.uint64(1))


def siphashes(key: tuple[int, int], texts: Sequence[bytes]) -> np.ndarray:
    """SipHash-2-4 of strings, uint64."""
    k0, k1 = (np.uint64(part & 0xFFFFFFFFFFFFFFFF) for part in key)
    begin = [k0 ^ np.uint64(0x736F6D6570736575), k1 ^ np.uint64(0x646F72616E646F6D)]
    begin += [k0 ^ np.uint64(0x6C7967656E657261), k1 ^ np.uint64(0x7465646279746573)]

    def rounds(v: list[Any], times: int) -> None:
        for _ in range(times):
            v[0] = v[0] + v[1]
            v[1] = _rotated(v[1], 51) ^ v[0]
            v[0] = _rotated(v[0], 32)
            v[2] = v[2] + v[3]
            v[3] = _rotated(v[3], 48) ^ v[2]
            v[0] = v[0] + v[3]
            v[3] = _rotated(v[3], 43) ^ v[0]
            v[2] = v[2] + v[1]
            v[1] = _rotated(v[1], 47) ^ v[2]
            v[2] = _rotated(v[2], 32)

    def hashed(held: _Texts, start: Any, size: Any, count: int) -> Any:
        v: list[Any] = [np.full(len(start), word) for word in begin]
        last = _rest(held, start, size, count) | ((size & 0xFF).astype(np.uint64) << np.uint64(56))
        for word in [*(held.words(start + 8 * i) for i in range(count)), last]:
            v[3] = v[3] ^ word
            rounds(v, 2)
            v[0] = v[0] ^ word
        v[2] = v[2] ^ np.uint64(0xFF)
        rounds(v, 4)
        return v[0] ^ v[1] ^ v[2] ^ v[3]

    return _by_words(texts, hashed)


def old_hashes(texts: Sequence[bytes], seed: int) -> np.ndarray:
    """The hash in the style of MurmurHash 2 of strings, uint64."""
    mul = np.uint64(0xC6A4A7935BD1E995)

    def hashed(held: _Texts, start: Any, size: Any, count: int) -> Any:
        h = np.uint64(seed) ^ (size.astype(np.uint64) * mul)
        for i in range(count):
            h = (h ^ (_mixed(held.words(start + 8 * i) * mul) * mul)) * mul
        h = np.where(size & 7, (h ^ _rest(held, start, size, count)) * mul, h)
        return _mixed(_mixed(h) * mul)

    return _by_words(texts, hashed)
