"""What is drawn from a Philox stream: uniform and normal numbers, truncated ones, integers, categories.

Each function takes a kernel's context and a stream ``(key uint32[2], counter uint32[4])``, so that ops with a stream of
their own and ops with a seed as input share it. Elements come from the stream's words in TensorFlow's order: for the
same stream, uniform numbers and integers are the very same, normal ones up to the last bits of sine and logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import spare_arrays
from anabranch.ops.math import xla_trigonometry
from anabranch.ops.random import philox

Stream = tuple[Any, Any]

RESERVED = 256
"""Blocks that an op reserves for an element, whatever it uses."""


MOST_AT_ONCE = 4 * philox.FEW
"""Numbers up to which the host makes all of them in one go."""


def uniform(ctx: Any, stream: Stream, count: int, dtype: np.dtype) -> Any:
    """``count`` uniform numbers in [0, 1) of ``dtype``."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    if dtype == np.float64:
        return philox.float64(xp, *philox.pairs(ctx, stream, count), view)
    if dtype == np.float32 and ctx.host and count > MOST_AT_ONCE:
        return _host_uniform(stream, count)
    bits = philox.kept_words(ctx, stream, count)
    if dtype == np.float32:
        return philox.float32(xp, bits, view)
    if dtype == np.float16:
        small = ((bits & np.uint32(0x3FF)) | np.uint32(15 << 10)).astype(np.uint16)
        return view(small, np.float16) - np.float16(1)
    small = ((bits & np.uint32(0x7F)) | np.uint32(127 << 7)).astype(np.uint16)
    return (view(small, dtype).astype(np.float32) - np.float32(1)).astype(dtype)


def _as_uniform(bits: np.ndarray) -> np.ndarray:
    """Words uint32 as the uniform float32 numbers that :func:`philox.float32` makes of them, in their own memory."""
    bits &= np.uint32(0x7FFFFF)
    bits |= np.uint32(127 << 23)
    numbers = bits.view(np.float32)
    numbers -= np.float32(1)
    return numbers


def _host_uniform(stream: Stream, count: int) -> np.ndarray:
    """Uniform float32 numbers, some at a time."""
    bits = spare_arrays.empty((4 * -(-count // 4),), np.uint32)
    for start, first, second in philox.host_chunks(stream, bits.size // 4):
        part = bits[4 * start : 4 * (start + first.shape[1])]
        philox.join(first, second, part)
        _as_uniform(part)
    return bits.view(np.float32)[:count]


def uniforms_of_streams(
    places: Sequence[philox.Place], counts: Sequence[int], dtype: np.dtype
) -> Sequence[np.ndarray | None]:
    """What :func:`uniform` gives on the host for several streams, each with its count; None for what is to be drawn by
    itself.
    """
    numbers = [-(-count // 4) for count in counts]
    rows = philox.rows_of_streams(places, numbers) if dtype == np.float32 else None
    if rows is None:
        return [None] * len(counts)
    words = np.empty(4 * sum(numbers), np.uint32)
    philox.join(*rows, words)
    return _by_stream(_as_uniform(words), numbers, counts)


def normals_of_streams(
    places: Sequence[philox.Place], counts: Sequence[int], dtype: np.dtype
) -> Sequence[np.ndarray | None]:
    """The same for :func:`normal`, which makes few by other calls of NumPy: these are drawn by themselves."""
    many = [i for i, count in enumerate(counts) if count > MOST_AT_ONCE]
    drawn: list[np.ndarray | None] = [None] * len(counts)
    numbers = [-(-counts[i] // 4) for i in many]
    rows = philox.rows_of_streams([places[i] for i in many], numbers) if many and dtype == np.float32 else None
    if rows is not None:
        normals = np.empty((sum(numbers), 4), np.float32)
        _store_rows(*_normal_rows(*rows), normals)
        parts = _by_stream(normals.reshape(-1), numbers, [counts[i] for i in many])
        for i, part in zip(many, parts, strict=True):
            drawn[i] = part
    return drawn


def _by_stream(drawn: np.ndarray, numbers: Sequence[int], counts: Sequence[int]) -> list[np.ndarray]:
    """The numbers of each stream, of which whole blocks have been drawn."""
    parts, begin = [], 0
    for number, count in zip(numbers, counts, strict=True):
        parts.append(drawn[begin : begin + count])
        begin += 4 * number
    return parts


def unsigned(ctx: Any, stream: Stream, count: int, wide: bool) -> Any:
    """``count`` integers of 32 bits, or of 64 if ``wide``."""
    if not wide:
        return philox.kept_words(ctx, stream, count)
    low, high = philox.pairs(ctx, stream, count)
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def integers(ctx: Any, stream: Stream, count: int, low: Any, high: Any, dtype: np.dtype) -> Any:
    """``count`` integers in ``[low, high)`` of ``dtype``; fails the step unless ``low < high``."""
    xp = ctx.xp
    kind = np.uint32 if dtype.itemsize == 4 else np.uint64
    low, high = xp.asarray(low), xp.asarray(high)
    ctx.check(
        (low < high).all() if count else True,
        errors.InvalidArgumentError,
        "Need minval < maxval, got {0} >= {1}",
        low,
        high,
    )
    bits = unsigned(ctx, stream, count, kind == np.uint64)
    start = low.astype(kind)
    span = high.astype(kind) - start
    span = xp.where(span == 0, kind(1), span)  # refused above; never divide by zero on the way
    return (bits % span + start).astype(dtype)


def _box_muller(ctx: Any, first: Any, second: Any, real: Any, rows: bool = False) -> tuple[Any, Any]:
    """Two normal numbers from two uniform ones (Box and Muller, 1958), in TensorFlow's order: sine, then cosine."""
    xp = ctx.xp
    radius = xp.sqrt(real(-2.0) * xp.log(xp.maximum(first, real(1.0e-7))))
    angle = real(2.0 * math.pi) * second
    fast = (
        real is np.float32 and not ctx.host and ctx.platform == "cpu" and (rows or xla_trigonometry.applies(ctx, angle))
    )
    sine, cosine = xla_trigonometry.sine_and_cosine(xp, angle) if fast else (xp.sin(angle), xp.cos(angle))
    return sine * radius, cosine * radius


def uniform_pairs(ctx: Any, stream: Stream, offsets: Any) -> tuple[Any, Any]:
    """The two uniform float64 numbers of each block at ``offsets``."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    a, b, c, d = philox.blocks(ctx, stream, offsets)
    return philox.float64(xp, a, b, view), philox.float64(xp, c, d, view)


def normal_pairs(ctx: Any, stream: Stream, offsets: Any) -> tuple[Any, Any]:
    """The two normal float64 numbers of each block at ``offsets``."""
    return _box_muller(ctx, *uniform_pairs(ctx, stream, offsets), np.float64)


def _host_normals(ctx: Any, stream: Stream, offsets: Any, double: bool) -> Any:
    """Normal numbers of the blocks at ``offsets``: ``[..., 4]`` float32, or ``[..., 2]`` float64."""
    if double:
        return np.stack(normal_pairs(ctx, stream, offsets), axis=-1)
    if offsets.size > philox.FEW:
        drawn = np.empty((offsets.size, 4), np.float32)
        _store_rows(*_normal_rows(*philox.rows_at(stream, offsets.reshape(-1))), drawn)
        return drawn.reshape(*offsets.shape, 4)
    view = philox.reinterpret(ctx)
    a, b, c, d = (philox.float32(np, word, view) for word in philox.host_blocks(stream, offsets))
    return np.stack((*_box_muller(ctx, a, b, np.float32), *_box_muller(ctx, c, d, np.float32)), axis=-1)


def _normal_rows(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The normal float32 numbers of blocks from :func:`philox.host_chunks`, as :func:`_box_muller` makes them: the
    first and third of each, ``[2, blocks]``, and the second and fourth.
    """
    radius, sine, cosine = (spare_arrays.empty(first.shape, np.float32) for _ in range(3))
    np.copyto(radius.view(np.uint32), first, casting="unsafe")
    np.copyto(cosine.view(np.uint32), second, casting="unsafe")
    np.maximum(_as_uniform(radius.view(np.uint32)), np.float32(1.0e-7), out=radius)
    np.log(radius, out=radius)
    radius *= np.float32(-2.0)
    np.sqrt(radius, out=radius)
    angle = _as_uniform(cosine.view(np.uint32))
    angle *= np.float32(2.0 * math.pi)
    np.sin(angle, out=sine)
    np.cos(angle, out=cosine)
    sine *= radius
    cosine *= radius
    return sine, cosine


def _store_rows(sine: np.ndarray, cosine: np.ndarray, drawn: np.ndarray) -> None:
    """Write numbers from :func:`_normal_rows` block by block, ``[blocks, 4]``."""
    drawn[:, 0], drawn[:, 2] = sine
    drawn[:, 1], drawn[:, 3] = cosine


def _normals_at(ctx: Any, stream: Stream, offsets: Any, lane: Any, double: bool) -> Any:
    """Under XLA: for each element number ``lane`` of the block at its offset; see :func:`philox.words`."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    if double:
        sine, cosine = normal_pairs(ctx, stream, offsets)
    else:
        a, b, c, d = philox.blocks(ctx, stream, offsets)
        first = philox.float32(xp, xp.where(lane < 2, a, c), view)
        sine, cosine = _box_muller(ctx, first, philox.float32(xp, xp.where(lane < 2, b, d), view), np.float32)
    return xp.where((lane & np.uint32(1)) == 0, sine, cosine)


def normal(ctx: Any, stream: Stream, count: int, dtype: np.dtype) -> Any:
    """``count`` normal numbers of mean 0 and deviation 1."""
    double = dtype == np.float64
    shift = 1 if double else 2
    if ctx.host and not double and count > MOST_AT_ONCE:
        drawn = spare_arrays.empty((-(-count // 4), 4), np.float32)
        for start, *words in philox.host_chunks(stream, len(drawn)):
            sine, cosine = _normal_rows(*words)
            _store_rows(sine, cosine, drawn[start : start + sine.shape[1]])
        drawn = drawn.reshape(-1)[:count]
    elif ctx.host:
        number = -(-count >> shift)
        parts = [
            _host_normals(ctx, stream, np.arange(start, min(start + philox.CHUNK, number), dtype=np.uint64), double)
            for start in range(0, number, philox.CHUNK)
        ]
        drawn = np.concatenate(parts).reshape(-1)[:count] if parts else np.zeros(0)
    else:
        place = ctx.xp.arange(count, dtype=np.uint64)
        lane = place.astype(np.uint32) & np.uint32((1 << shift) - 1)
        drawn = _normals_at(ctx, stream, place >> np.uint64(shift), lane, double)
    return drawn.astype(dtype, copy=False)


def kept(ctx: Any, stream: Stream, *arrays: Any) -> tuple[Any, ...]:
    """The arrays, which XLA then makes once and not anew in each of their uses: on a CPU it drops its own barriers."""
    if ctx.host or ctx.platform != "cpu":
        return arrays
    always = (stream[0][0] | np.uint32(1)) != 0  # which XLA does not see
    return ctx.lax.cond(always, lambda *x: x, lambda *x: tuple(-a for a in x), *arrays)


_CLOSE = np.float32(4e-6)
"""Float32 numbers so close to a bound are on the side on which their float64 values are: the same in every tier."""


def _exactly(xp: Any, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    """The four normal numbers of four uniform float32 ones, in float64."""
    groups: list[Any] = []
    for first, second in ((a, b), (c, d)):
        radius = xp.sqrt(-2.0 * xp.log(xp.maximum(first.astype(np.float64), 1.0e-7)))
        angle = (2.0 * math.pi) * second.astype(np.float64)
        groups += [xp.sin(angle) * radius, xp.cos(angle) * radius]
    return tuple(groups)


def _block_normals(ctx: Any, stream: Stream, offsets: Any, double: bool, exact: bool) -> tuple[Any, Any]:
    """The four normal numbers (two for float64) of each block, an array for each; and what decides if they pass."""
    if double:
        drawn = normal_pairs(ctx, stream, offsets)
        return drawn, drawn
    xp, view = ctx.xp, philox.reinterpret(ctx)
    # Kept as numbers, not as words: XLA would turn 2 pi (x - 1) into 2 pi x - 2 pi, whose rounding is another.
    a, b, c, d = kept(ctx, stream, *[philox.float32(xp, word, view) for word in philox.blocks(ctx, stream, offsets)])
    drawn = (*_box_muller(ctx, a, b, np.float32, True), *_box_muller(ctx, c, d, np.float32, True))
    return drawn, _exactly(xp, a, b, c, d) if exact else drawn


_ROW = 256
"""Groups that are looked at together after the first turn."""


def _truncated_groups(ctx: Any, stream: Stream, groups: int, stride: int, size: int, double: bool) -> Any:
    """A turn for all groups, which is enough for nearly all of them, then an exact search in rows that hold others."""
    xp, lax = ctx.xp, ctx.lax
    real = np.float64 if double else np.float32

    def turn(offsets: Any, blocks: int, exact: bool, candidates: Any, rank: Any) -> tuple[Any, Any, Any]:
        """The numbers found of each group, how many, and whether a decision was close."""
        pairs = [_block_normals(ctx, stream, offsets + np.uint64(i), double, exact) for i in range(blocks)]
        drawn = kept(ctx, stream, *[value for values, _ in pairs for value in values])
        deciding = [value for _, values in pairs for value in values] if exact else drawn
        close = xp.zeros(offsets.shape, bool)
        for value, decides in zip(drawn, deciding, strict=True):
            good = xp.abs(decides) < 2.0
            close = close | (xp.abs(xp.abs(decides) - 2) < _CLOSE)
            candidates = tuple(xp.where(good & (rank == k), value, old) for k, old in enumerate(candidates))
            rank = xp.minimum(rank + good.astype(rank.dtype), np.int8(size))
        return candidates, rank, close

    def nothing(count: int) -> tuple[Any, Any]:
        return (xp.zeros((count,), real),) * size, xp.zeros((count,), np.int8)

    def search(offsets: Any) -> Any:
        def more(carry: Any) -> Any:
            skip, candidates, rank = carry
            return skip + np.uint64(1), *turn(offsets + skip, 1, True, candidates, rank)[:2]

        start = (np.uint64(0), *nothing(offsets.shape[0]))
        return xp.stack(lax.while_loop(lambda carry: xp.any(carry[2] < size), more, start)[1], axis=1)

    offsets = xp.arange(groups, dtype=np.uint64) * np.uint64(stride)
    candidates, rank, close = turn(offsets, 2 if size == 4 else 3, double, *nothing(groups))
    undone = (rank < size) if double else (rank < size) | close
    row = min(_ROW, groups)
    rows = -(-groups // row)
    undone = xp.any(xp.pad(undone, (0, rows * row - groups)).reshape(rows, row), axis=1)

    def again(carry: Any) -> Any:
        candidates, undone = carry
        number = xp.argmax(undone)
        start = xp.minimum(number * row, groups - row)
        place = (start.astype(np.uint64) + xp.arange(row, dtype=np.uint64)) * np.uint64(stride)
        candidates = lax.dynamic_update_slice(candidates, search(place), (start, xp.zeros_like(start)))
        return candidates, undone.at[number].set(False)

    return lax.while_loop(lambda carry: xp.any(carry[1]), again, (xp.stack(candidates, axis=1), undone))[0]


def _truncated_groups_on_host(
    ctx: Any, stream: Stream, groups: int, stride: int, size: int, double: bool
) -> np.ndarray:
    samples = np.empty((groups, size), np.float64) if double else spare_arrays.empty((groups, size), np.float32)
    if double or groups <= philox.FEW:
        for start in range(0, groups, philox.CHUNK):
            part = np.arange(start, min(start + philox.CHUNK, groups), dtype=np.uint64)
            samples[start : start + philox.CHUNK] = _search_on_host(ctx, stream, part, stride, size, double, 1)
        return samples
    for start, *words in philox.host_chunks(stream, groups, stride):
        sine, cosine = _normal_rows(*words)
        part = samples[start : start + sine.shape[1]]
        _store_rows(sine, cosine, part)
        greatest = np.maximum(np.abs(sine, out=sine), np.abs(cosine, out=cosine)).max(axis=0)
        others = np.flatnonzero(~(greatest < np.float32(2.0) - 2 * _CLOSE))  # the block's numbers are not all good
        todo = others.astype(np.uint64) + np.uint64(start)
        part[others] = _search_on_host(ctx, stream, todo, stride, size, double, 2)
    return samples


def _search_on_host(
    ctx: Any, stream: Stream, groups: np.ndarray, stride: int, size: int, double: bool, tries: int
) -> np.ndarray:
    """The samples of the groups with these numbers; ``tries`` are the blocks of each that are looked at first."""
    samples = np.empty((groups.size, size), np.float64 if double else np.float32)
    todo = np.arange(groups.size)
    while todo.size:
        offsets = (groups[todo] * np.uint64(stride))[:, None] + np.arange(tries, dtype=np.uint64)
        drawn = _host_normals(ctx, stream, offsets, double).reshape(todo.size, -1)
        distance = np.abs(drawn)
        accepted = distance < 2.0
        distance -= 2
        close = np.flatnonzero(np.abs(distance, out=distance) < _CLOSE) if not double else ()
        for place in close:
            words = philox.host_blocks(stream, offsets.reshape(-1)[place // 4 : place // 4 + 1])
            uniforms = [philox.float32(np, word, philox.reinterpret(ctx)) for word in words]
            accepted.reshape(-1)[place] = abs(_exactly(np, *uniforms)[place % 4][0]) < 2.0
        by_candidate = np.ascontiguousarray(accepted.T)  # NumPy is slow along dimensions as short as a group's
        so_far = np.cumsum(by_candidate, axis=0, dtype=np.int16)
        by_candidate &= so_far <= size
        enough = so_far[-1] >= size
        samples[todo[enough]] = drawn[enough][by_candidate.T[enough]].reshape(-1, size)
        todo = todo[~enough]
        tries = min(4 * tries, stride)
    return samples


def truncated_normal(ctx: Any, stream: Stream, count: int, dtype: np.dtype) -> Any:
    """``count`` normal numbers within two deviations.

    Each group of four (two for float64) has a stretch of the stream to itself and takes the first numbers in it that
    pass.
    """
    double = dtype == np.float64
    size = 2 if double else 4
    stride = size * RESERVED // 4
    groups = -(-count // size)
    if groups == 0:
        return ctx.xp.zeros((0,), dtype)
    make = _truncated_groups_on_host if ctx.host else _truncated_groups
    return make(ctx, stream, groups, stride, size, double).reshape(-1)[:count].astype(dtype, copy=False)


def categories(ctx: Any, stream: Stream, logits: Any, samples: int, dtype: np.dtype) -> Any:
    """Numbers of classes ``[rows, samples]`` drawn by unnormalised log-probabilities ``[rows, classes]``."""
    xp, view = ctx.xp, philox.reinterpret(ctx)
    rows, classes = logits.shape
    ctx.check(
        classes > 0 or rows * samples == 0,
        errors.InvalidArgumentError,
        "num_classes should be positive, got {0}",
        classes,
    )
    if rows * samples == 0 or classes == 0:
        return xp.zeros((rows, samples), dtype)
    wide = logits.astype(np.float64)
    finite = xp.isfinite(wide)
    top = xp.max(xp.where(finite, wide, -np.inf), axis=1, keepdims=True)
    weights = xp.where(finite, xp.exp(wide - top), 0.0)
    bits = philox.pairs(ctx, stream, rows * samples)
    uniform = philox.float64(xp, *bits, view).reshape(rows, samples)
    # The first class whose cumulated weight exceeds the drawn one.
    if ctx.host:
        cumulated = np.cumsum(weights, axis=1)
        drawn = uniform * cumulated[:, -1:]
        chosen = np.stack([np.searchsorted(c, d, side="right") for c, d in zip(cumulated, drawn, strict=True)])
    elif classes > 2 * _CLASSES_OF_A_BLOCK:
        chosen = _by_blocks(ctx, weights, uniform)
    else:
        cumulated = xp.cumsum(weights, axis=1)
        chosen = xp.sum(cumulated[:, None, :] <= (uniform * cumulated[:, -1:])[:, :, None], axis=2)
    return xp.minimum(chosen, classes - 1).astype(dtype)


_CLASSES_OF_A_BLOCK = 64


def _by_blocks(ctx: Any, weights: Any, uniform: Any) -> Any:
    """The classes ``[rows, samples]`` that uniform numbers choose among many: first a block, then one in it.

    To cumulate all weights takes XLA several times as long as to compute them: it adds up what it has added up before.
    """
    xp, size = ctx.xp, _CLASSES_OF_A_BLOCK
    rows, classes = weights.shape
    blocks = ctx.apart(xp.pad(weights, ((0, 0), (0, -classes % size)))).reshape(rows, -1, size)
    ends = xp.cumsum(xp.sum(blocks, axis=2), axis=1)
    drawn = uniform * ends[:, -1:]
    block = xp.minimum(xp.sum(ends[:, None, :] <= drawn[:, :, None], axis=2), blocks.shape[1] - 1)
    before = xp.where(block > 0, xp.take_along_axis(ends, xp.maximum(block - 1, 0), axis=1), 0.0)
    within = xp.cumsum(xp.take_along_axis(blocks, block[:, :, None], axis=1), axis=2) + before[:, :, None]
    # The block's end, in which its sums are rounded otherwise, exceeds what was drawn: so does its last class.
    return block * size + xp.sum(within[:, :, :-1] <= drawn[:, :, None], axis=2)
