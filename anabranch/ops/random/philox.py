"""Philox4x32-10, the counter-based generator of TensorFlow's random ops (Salmon et al., 2011), in both tiers.

A stream is a key of two 32-bit words and a counter of four; each counter value gives a block of four words. All
arithmetic is on integers, so both tiers and all devices make the same bits. Products of 32-bit words are taken in 64
bits, which XLA does well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core.values import spare_arrays

_MULTIPLY_0 = 0xD2511F53
_MULTIPLY_1 = 0xCD9E8D57
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_LOW = 0xFFFFFFFF
_MIX_0 = 0x3EC8F720
_MIX_1 = 0x02461E29


def _wide(xp: Any, value: Any) -> Any:
    return xp.asarray(value).astype(np.uint64)


def _product(xp: Any, value: Any, factor: int) -> tuple[Any, Any]:
    wide = value.astype(np.uint64) * np.uint64(factor)
    return (wide >> np.uint64(32)).astype(np.uint32), wide.astype(np.uint32)


def blocks(ctx: Any, philox: tuple[Any, Any], offsets: Any) -> list[Any]:
    """The four uint32 words of the blocks at ``offsets`` (uint64) after the stream's counter, each like ``offsets``."""
    if ctx.host:
        return host_blocks(philox, offsets)
    return list(ctx.once(_blocks, (), philox, offsets))


def host_blocks(philox: tuple[Any, Any], offsets: Any) -> list[Any]:
    """The same on the host."""
    return (_few_blocks if np.size(offsets) <= FEW else _many_blocks)(philox, np.asarray(offsets))


def _blocks(xp: Any, philox: tuple[Any, Any], offsets: Any) -> list[Any]:
    """The same under XLA, which is long to trace: whoever calls it has it traced once for all calls that are alike."""
    key, counter = philox
    low = _wide(xp, counter[0]) | (_wide(xp, counter[1]) << np.uint64(32))
    high = _wide(xp, counter[2]) | (_wide(xp, counter[3]) << np.uint64(32))
    position = offsets + low
    high = high + (position < low).astype(np.uint64)  # the carry into the upper half
    thirty_two = np.uint64(32)
    word0, word1 = position.astype(np.uint32), (position >> thirty_two).astype(np.uint32)
    word2, word3 = high.astype(np.uint32), (high >> thirty_two).astype(np.uint32)
    key0, key1 = xp.asarray(key[0]).astype(np.uint32), xp.asarray(key[1]).astype(np.uint32)
    for step in range(10):
        bump0 = np.uint32((_WEYL_0 * step) & _LOW)
        bump1 = np.uint32((_WEYL_1 * step) & _LOW)
        high0, low0 = _product(xp, word0, _MULTIPLY_0)
        high1, low1 = _product(xp, word2, _MULTIPLY_1)
        with np.errstate(over="ignore"):
            round0, round1 = key0 + bump0, key1 + bump1
        word0, word1, word2, word3 = high1 ^ word1 ^ round0, low1, high0 ^ word3 ^ round1, low0
    return [word0, word1, word2, word3]


FEW = 8
"""Blocks up to which Python's numbers take less time than calls of NumPy."""


def _few_blocks(philox: tuple[Any, Any], offsets: Any) -> list[Any]:
    """The same for a few offsets, number by number."""
    found = _few_words(philox, np.asarray(offsets).reshape(-1).tolist())
    return [np.array(found[lane::4], np.uint32).reshape(np.shape(offsets)) for lane in range(4)]


def _few_words(philox: tuple[Any, Any], offsets: Iterable[int]) -> list[int]:
    """The words of the blocks at a few offsets, one block behind the other."""
    (first_key, second_key), (w0, w1, w2, w3) = philox
    key = int(first_key) & _LOW | (int(second_key) & _LOW) << 32
    place = int(w0) & _LOW | (int(w1) & _LOW) << 32 | (int(w2) & _LOW) << 64 | (int(w3) & _LOW) << 96
    return _of_places(key, [place + offset for offset in offsets])


def few(key: int, place: int, number: int) -> list[int]:
    """The words of a few blocks from a place (of 128 bits) on, one block behind the other, for a key of 64 bits."""
    return _of_places(key, range(place, place + number))


def stream_at(key: int, place: int) -> tuple[np.ndarray, np.ndarray]:
    """The same stream as kernels take it: ``(uint32[2], uint32[4])``, little end first."""
    first = np.array([key & _LOW, key >> 32], np.uint32)
    return first, np.array([(place >> shift) & _LOW for shift in (0, 32, 64, 96)], np.uint32)


def _of_places(key: int, places: Iterable[int]) -> list[int]:
    first_key, second_key = key & _LOW, key >> 32
    found: list[int] = []
    for position in places:
        word0, word1 = position & _LOW, position >> 32 & _LOW
        word2, word3 = position >> 64 & _LOW, position >> 96 & _LOW
        key0, key1 = first_key, second_key
        for _ in range(10):
            product0, product1 = word0 * _MULTIPLY_0, word2 * _MULTIPLY_1
            word0, word1 = product1 >> 32 ^ word1 ^ key0, product1 & _LOW
            word2, word3 = product0 >> 32 ^ word3 ^ key1, product0 & _LOW
            key0, key1 = key0 + _WEYL_0 & _LOW, key1 + _WEYL_1 & _LOW
        found += (word0, word1, word2, word3)
    return found


_FACTORS = np.array([_MULTIPLY_0, _MULTIPLY_1], np.uint64)
_BUMPS = np.array([[_WEYL_0 * step & _LOW, _WEYL_1 * step & _LOW] for step in range(10)], np.uint64)


def _rounds(key: Any, multiplied: np.ndarray, others: np.ndarray, product: np.ndarray) -> None:
    """All rounds of many blocks, in place: of a block's words, those that a round multiplies and the others.

    Both halves of a round are one call of NumPy (a row for each), and nothing is narrowed between rounds.
    """
    half, mask, pair = np.uint64(32), np.uint64(_LOW), (2, *[1] * (multiplied.ndim - 1))
    factors, keys = _FACTORS.reshape(pair), (np.array([int(word) for word in key], np.uint64) + _BUMPS) & mask
    crossed = product[::-1]
    for step in range(10):
        np.multiply(multiplied, factors, out=product)
        np.right_shift(crossed, half, out=multiplied)
        multiplied ^= others
        multiplied ^= keys[step].reshape(pair)
        np.bitwise_and(crossed, mask, out=others)


def _begin(counter: Any, offsets: np.ndarray, most: int, multiplied: np.ndarray, others: np.ndarray) -> None:
    """Write what the rounds of the blocks at ``offsets``, of which ``most`` is the greatest, begin with."""
    words = [int(word) & _LOW for word in counter]
    low, high = words[0] | words[1] << 32, words[2] | words[3] << 32
    half, mask = np.uint64(32), np.uint64(_LOW)
    position = np.add(offsets, np.uint64(low), out=multiplied[1])
    np.bitwise_and(position, mask, out=multiplied[0])
    np.right_shift(position, half, out=others[0])
    if low + most >> 64:
        upper = (position < np.uint64(low)) + np.uint64(high)  # the carry goes there
        np.bitwise_and(upper, mask, out=multiplied[1])
        np.right_shift(upper, half, out=others[1])
    else:
        multiplied[1], others[1] = words[2:]


def rows_at(philox: tuple[Any, Any], offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The words of the blocks at ``offsets`` on the host, as :func:`host_chunks` gives them."""
    multiplied, others, product = (spare_arrays.empty((2, *offsets.shape), np.uint64) for _ in range(3))
    _begin(philox[1], offsets, int(offsets.max()) if offsets.size else 0, multiplied, others)
    _rounds(philox[0], multiplied, others, product)
    return multiplied, others


Place = tuple[int, int]
"""A stream at a place: its key of 64 bits, and the number of its next block, of 128 bits."""


def rows_of_streams(places: Sequence[Place], numbers: Sequence[int]) -> tuple[np.ndarray, np.ndarray] | None:
    """The words of the next blocks of several streams on the host, one stream behind the other, as :func:`host_chunks`
    gives them; None where the lower half of a stream's counter would carry.

    Args:
        places: the streams.
        numbers: how many blocks of each.
    """
    half, mask, total = np.uint64(32), np.uint64(_LOW), sum(numbers)
    multiplied, others, product, keys = (np.empty((2, total), np.uint64) for _ in range(4))
    end = 0
    for (key, place), number in zip(places, numbers, strict=True):
        begin, end = end, end + number
        low, high = place & (1 << 64) - 1, place >> 64
        if low + number >> 64:
            return None
        others[0, begin:end] = np.arange(low, low + number, dtype=np.uint64)
        multiplied[1, begin:end], others[1, begin:end] = high & _LOW, high >> 32
        keys[0, begin:end], keys[1, begin:end] = key & _LOW, key >> 32
    np.bitwise_and(others[0], mask, out=multiplied[0])
    others[0] >>= half
    crossed, factors, bump = product[::-1], _FACTORS[:, None], _BUMPS[1][:, None]
    for _ in range(10):
        np.multiply(multiplied, factors, out=product)
        np.right_shift(crossed, half, out=multiplied)
        multiplied ^= others
        multiplied ^= keys
        np.bitwise_and(crossed, mask, out=others)
        keys += bump
        keys &= mask
    return multiplied, others


def _many_blocks(philox: tuple[Any, Any], offsets: np.ndarray) -> list[Any]:
    """The same for many."""
    first, second = rows_at(philox, offsets)
    return [words[row].astype(np.uint32) for row in (0, 1) for words in (first, second)]


CHUNK = 1 << 14
"""Blocks that the host makes at once: what stays in a core's cache."""


def host_chunks(philox: tuple[Any, Any], number: int, stride: int = 1) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Blocks on the host, ``stride`` apart, some at a time: where these begin, and their words as integers of 64 bits.

    The first and third word of each block are rows of the first array, ``[2, blocks]``, the second and fourth of the
    other. Whoever is given them may write to them; the next ones are in the same memory.
    """
    memory = [spare_arrays.empty((2, min(number, CHUNK)), np.uint64) for _ in range(3)]
    for start in range(0, number, CHUNK):
        stop = min(start + CHUNK, number)
        multiplied, others, product = (array[:, : stop - start] for array in memory)
        offsets = np.arange(start * stride, stop * stride, stride, dtype=np.uint64)
        _begin(philox[1], offsets, (stop - 1) * stride, multiplied, others)
        _rounds(philox[0], multiplied, others, product)
        yield start, multiplied, others


def join(first: np.ndarray, second: np.ndarray, words: np.ndarray) -> None:
    """Write the words of blocks, as :func:`host_chunks` gives them, to ``words``, uint32 ``[4 * blocks]``."""
    second <<= np.uint64(32)
    first |= second
    pairs = words.view(np.uint64).reshape(-1, 2)
    pairs[:, 0], pairs[:, 1] = first


def words(ctx: Any, philox: tuple[Any, Any], count: int) -> Any:
    """The first ``count`` words of the stream, in order, as uint32 ``[count]``."""
    return host_words(philox, count) if ctx.host else ctx.once(_words, (count,), philox)


def host_words(philox: tuple[Any, Any], count: int) -> np.ndarray:
    """The same on the host."""
    return _words_of_blocks(philox, -(-count // 4))[:count]


def _words(xp: Any, count: int, philox: tuple[Any, Any]) -> Any:
    # Under XLA each element makes its block anew and keeps one word. Joining the words of blocks would do the same, as
    # XLA pulls the generator into the concatenation, but with a branch for each element: ten times slower on a CPU.
    place = xp.arange(count, dtype=np.uint64)
    a, b, c, d = _blocks(xp, philox, place >> np.uint64(2))
    lane = place.astype(np.uint32) & np.uint32(3)
    return xp.where(lane < 2, xp.where(lane == 0, a, b), xp.where(lane == 2, c, d))


LEAST_KEPT = 1 << 12
"""Words from which on a program for CPUs keeps them in memory."""


def kept_words(ctx: Any, philox: tuple[Any, Any], count: int) -> Any:
    """The same for a kernel. A program for CPUs makes many of them once, not anew in each op that takes them.

    Two words are one integer in memory: so a block is made twice, and not four times.
    """
    if ctx.host or ctx.platform != "cpu" or ctx.recorder is not None or count < LEAST_KEPT:
        return words(ctx, philox, count)
    both = ctx.once(_joined_pairs, (-(-count // 2),), philox)
    return ctx.lax.bitcast_convert_type(ctx.apart(both), np.uint32).reshape(-1)[:count]


def _joined_pairs(xp: Any, count: int, philox: tuple[Any, Any]) -> Any:
    """The first ``2 * count`` words of the stream as ``count`` integers of 64 bits."""
    first, second = _pairs(xp, count, philox)
    return first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)


def pairs(ctx: Any, philox: tuple[Any, Any], count: int) -> tuple[Any, Any]:
    """The first ``2 * count`` words of the stream as ``count`` pairs: first words, second words."""
    if ctx.host:
        words = _words_of_blocks(philox, -(-count // 2)).reshape(-1, 2)[:count]
        return words[:, 0], words[:, 1]
    first, second = ctx.once(_pairs, (count,), philox)
    return first, second


def _pairs(xp: Any, count: int, philox: tuple[Any, Any]) -> tuple[Any, Any]:
    place = xp.arange(count, dtype=np.uint64)
    a, b, c, d = _blocks(xp, philox, place >> np.uint64(1))
    even = (place.astype(np.uint32) & np.uint32(1)) == 0
    return xp.where(even, a, c), xp.where(even, b, d)


def _words_of_blocks(philox: tuple[Any, Any], number: int) -> np.ndarray:
    """The words of the first blocks, in order."""
    if number <= FEW:
        return np.array(_few_words(philox, range(number)), np.uint32)
    words = spare_arrays.empty((4 * number,), np.uint32)
    for start, first, second in host_chunks(philox, number):
        join(first, second, words[4 * start : 4 * (start + first.shape[1])])
    return words


def stream_of_seed(ctx: Any, seed: Any) -> tuple[Any, Any]:
    """The stream of a stateless op's seed, two integers: they are mixed, so that near seeds give far streams."""
    xp = ctx.xp
    halves = xp.asarray(seed).astype(np.int64).astype(np.uint64)
    low, high = halves.astype(np.uint32), (halves >> np.uint64(32)).astype(np.uint32)
    key = np.array([_MIX_0, _MIX_1], np.uint32)
    counter = (low[0], high[0], low[1], high[1])
    a, b, c, d = (word[0] for word in blocks(ctx, (key, counter), np.zeros(1, np.uint64)))
    return (a, b), (np.uint32(0), np.uint32(0), c, d)


def float32(xp: Any, bits: Any, view: Any) -> Any:
    """Uniform float32 in [0, 1) from 23 bits of each word."""
    return view((bits & np.uint32(0x7FFFFF)) | np.uint32(127 << 23), np.float32) - np.float32(1)


def float64(xp: Any, high: Any, low: Any, view: Any) -> Any:
    """Uniform float64 in [0, 1) from 52 bits of two words."""
    mantissa = ((high & np.uint32(0xFFFFF)).astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return view(mantissa | np.uint64(1023 << 52), np.float64) - np.float64(1)


def reinterpret(ctx: Any) -> Any:
    """``view(array, dtype)``: the same bits as another type of the same width."""
    if ctx.host:
        return lambda array, dtype: array.view(dtype)
    return lambda array, dtype: ctx.lax.bitcast_convert_type(array, dtype)
