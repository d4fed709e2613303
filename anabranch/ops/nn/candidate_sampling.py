"""Samplers of candidate classes: uniform, log-uniform, by given or learned frequencies; all; accidental hits.

Policy. Candidates come from the op's Philox stream by TensorFlow's formulas, so that the same seeds give the same
candidates. Distinct candidates are the first distinct ones of the stream; they are found in rounds of a whole vector
each, so that both tiers do with a few rounds what TensorFlow does one by one. The step from a 64-bit word to a class is
a plain remainder: TensorFlow rejects a word in 2^32 or fewer. Expected counts follow from how many were drawn.
"""

from __future__ import annotations

import csv
import io
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors, file_errors
from anabranch.core.cache import memoized
from anabranch.core.contract.opdef import PURE, RANDOM, Bool, Float, Int, List, NotDifferentiable, Op, String
from anabranch.core.values import shapes
from anabranch.ops.random import philox
from anabranch.ops.shared import row_sums

RESERVED = 512
"""Blocks of the stream that an op reserves for a candidate, whatever it uses."""
_DRAWN = NotDifferentiable("samples are drawn, not computed")
_SIGNATURE = (
    "true_classes: int64 -> sampled_candidates: int64, true_expected_count: float, sampled_expected_count: float"
)
_COUNTS = {"num_true": Int(minimum=1), "num_sampled": Int(minimum=1), "unique": Bool()}
_SEEDS = {"seed": Int(0), "seed2": Int(0)}

Draw = Callable[[Any, Any, Any], Any]
"""``draw(ctx, stream, places)``: the candidates, int64, at these places (uint64, in a row) of the sequence of draws."""


def _shapes(c: Any) -> list[Any]:
    raw = c.shape("true_classes")
    if raw is not None and len(raw) != 2:
        raise ValueError(
            f"Shape must be rank 2 but is rank {len(raw)}\ntrue_classes must be a matrix\n"
            + errors.message(f"true_classes of rank {len(raw)}", "[batch, num_true]", "tf.expand_dims(true_classes, 1)")
        )
    true = c.with_rank("true_classes", 2)
    number = c.attrs["num_true"]
    if true[1] not in (None, number):
        raise ValueError(
            f"true_classes must have num_true columns, expected: {true[1]} was: {number}\n"
            + errors.message(
                f"true_classes with {true[1]} columns and num_true={number}", "as many columns", f"num_true={true[1]}"
            )
        )
    return [(c.attrs["num_sampled"],), (true[0], number), (c.attrs["num_sampled"],)]


def _reserve(c: Any) -> int:
    return RESERVED * int(c.attrs["num_sampled"])


def _check_true(ctx: Any, true: Any, attrs: Any, size: int | None) -> None:
    """Refuse true classes of another shape than ``[n, num_true]``; with a size, also those that are not below it."""
    ctx.check(
        true.ndim == 2 and true.shape[1] == attrs["num_true"],
        errors.InvalidArgumentError,
        f"true_classes must have num_true = {attrs['num_true']} columns, got shape {shapes.show(true.shape)}",
    )
    if size is not None and true.size and not (ctx.host and row_sums.is_within(true, size)):
        wrong = (true < 0) | (true >= size)
        first = ctx.xp.argmax(wrong.reshape(-1))
        ctx.check(
            ~wrong.any(),
            errors.InvalidArgumentError,
            f"`true_candidate` out of range [0, {size}), received {{0}}\n"
            + errors.message(
                "a true class outside the sampler's range",
                f"a class from 0 to {size - 1}",
                "range_max above all classes",
            ),
            true.reshape(-1)[first],
        )


def _check_range(ctx: Any, attrs: Any, size: int) -> bool:
    """Whether there are that many distinct candidates; fails the step otherwise."""
    enough = not attrs["unique"] or attrs["num_sampled"] <= size
    ctx.check(
        enough,
        errors.InvalidArgumentError,
        "Sampler's range is too small.\n"
        + errors.message(
            f"{attrs['num_sampled']} distinct candidates of {size}", f"num_sampled of at most {size}", "unique=False"
        ),
    )
    return enough


# ------------------------------------------------------------------------------------------------------------- drawing
def _words(ctx: Any, stream: Any, places: Any) -> Any:
    """The stream's words (uint32) at places (uint64)."""
    xp = ctx.xp
    a, b, c, d = philox.blocks(ctx, stream, places >> np.uint64(2))
    lane = places & np.uint64(3)
    return xp.where(lane < 2, xp.where(lane == 0, a, b), xp.where(lane == 2, c, d))


def _pairs(ctx: Any, stream: Any, places: Any) -> tuple[Any, Any]:
    """The words ``2 i`` and ``2 i + 1`` for each place ``i``."""
    xp = ctx.xp
    if ctx.host and places.size > 1 and not int(places[0]) & 1:  # places in a row, from an even one on: whole blocks
        number = (places.size + 1) // 2
        blocks = philox.blocks(ctx, stream, (places[0] >> np.uint64(1)) + np.arange(number, dtype=np.uint64))
        words = np.stack(blocks, 1).reshape(-1, 2)[: places.size]
        return words[:, 0], words[:, 1]
    a, b, c, d = philox.blocks(ctx, stream, places >> np.uint64(1))
    even = (places & np.uint64(1)) == 0
    return xp.where(even, a, c), xp.where(even, b, d)


def _in_order(ctx: Any, candidates: Any, limit: int) -> tuple[Any, Any]:
    """The candidates, all below ``limit``, from the smallest on, equal ones in the order of their places; and those.

    A candidate and its place are one integer where that has the bits: XLA sorts one array in half the time of two.
    """
    xp, number = ctx.xp, candidates.shape[0]
    places = np.arange(number, dtype=np.int64)
    bits = number.bit_length()
    if max(limit, number).bit_length() + bits > 62:
        return tuple(ctx.lax.sort((candidates, xp.asarray(places)), num_keys=1, is_stable=True))
    both = ctx.lax.sort((candidates << bits) | places, is_stable=False)
    return both >> bits, both & np.int64((1 << bits) - 1)


def _distinct(ctx: Any, stream: Any, draw: Draw, count: int, limit: int) -> tuple[Any, Any]:
    """The first ``count`` distinct candidates, all of which are below ``limit``, and how many were drawn for them."""
    size = max(2 * count, 16)
    if ctx.host:
        return _distinct_on_host(ctx, stream, draw, count, size)
    xp = ctx.xp
    steps, total = np.arange(size, dtype=np.uint64), size + count
    # Places not filled yet hold negative numbers, which no candidate is equal to.
    nothing = xp.asarray(-1 - np.arange(count, dtype=np.int64))

    def round_(carry: Any) -> Any:
        candidates, _, start, tries = carry
        # XLA would move what depends on the stream alone out of the loop: the keys of ten rounds, a kernel for each.
        nothing_yet = (start >> np.uint64(63)).astype(np.uint32)  # 0, which XLA does not see
        here = tuple([tuple([word ^ nothing_yet for word in words]) for words in stream])
        both = xp.concatenate([candidates, draw(ctx, here, xp.asarray(steps) + start)])
        ordered, places = _in_order(ctx, both, limit)
        new = xp.concatenate([xp.ones((1,), bool), ordered[1:] != ordered[:-1]]) & (ordered >= 0)
        first = ctx.lax.sort(xp.where(new, places, total).astype(np.int32), is_stable=False)[:count]
        candidates = xp.where(first < total, both[xp.minimum(first, total - 1)], nothing)
        last = first[-1]
        tries = tries + xp.where(last < total, last - (count - 1), size).astype(np.int64)
        return candidates, last < total, start + np.uint64(size), tries

    carry: Any = (nothing, xp.asarray(False), xp.asarray(np.uint64(0)), xp.asarray(np.int64(0)))
    carry = ctx.lax.while_loop(lambda c: ~c[1], round_, carry)
    return carry[0], carry[3]


def _distinct_on_host(ctx: Any, stream: Any, draw: Draw, count: int, size: int) -> tuple[Any, Any]:
    """The same, one candidate after the other: a dictionary keeps the order in which keys came."""
    found: dict[int, None] = {}
    places = np.arange(size, dtype=np.uint64)
    tries = 0
    while len(found) < count:
        for candidate in draw(ctx, stream, places + np.uint64(tries)).tolist():
            tries += 1
            found[candidate] = None
            if len(found) == count:
                break
    return np.array(list(found), np.int64), np.int64(tries)


def _expected(ctx: Any, probability: Any, count: int, tries: Any) -> Any:
    """How often a candidate of this probability is expected in the sample."""
    xp = ctx.xp
    once = probability * np.float32(count)
    rejected = -xp.expm1(xp.asarray(tries).astype(np.float32) * xp.log1p(-probability))
    return xp.where(tries == count, once, rejected).astype(np.float32)


def _sample(
    ctx: Any,
    true: Any,
    attrs: Any,
    size: int,
    draw: Draw,
    probability: Callable[[Any], Any],
    only_known: bool = True,
) -> Any:
    xp = ctx.xp
    count = attrs["num_sampled"]
    _check_true(ctx, true, attrs, attrs["range_max"] if only_known else None)
    possible = _check_range(ctx, attrs, size)
    if attrs["unique"] and possible:
        candidates, tries = _distinct(ctx, ctx.philox, draw, count, attrs["range_max"])
    else:
        candidates, tries = draw(ctx, ctx.philox, xp.arange(count, dtype=np.uint64)), np.int64(count)
    given = _expected(ctx, probability(true), count, tries)
    return candidates, given, _expected(ctx, probability(candidates), count, tries)


# ------------------------------------------------------------------------------------------------------------ samplers
class UniformCandidateSampler(Op):
    """Classes drawn uniformly from ``[0, range_max)``, and how often true and drawn ones are expected in a sample."""

    signature = _SIGNATURE
    attrs = {**_COUNTS, "range_max": Int(minimum=1), **_SEEDS}
    effect = RANDOM
    shape = _shapes
    consumes = _reserve
    gradient = _DRAWN

    def kernel(ctx, inputs, attrs):
        size = attrs["range_max"]

        def draw(ctx, stream, places):
            low, high = _pairs(ctx, stream, places)
            word = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
            return (word % np.uint64(size)).astype(np.int64)

        def probability(classes):
            return ctx.xp.full(classes.shape, np.float32(1.0 / size))

        return _sample(ctx, inputs[0], attrs, size, draw, probability)


class LogUniformCandidateSampler(Op):
    """Classes drawn from ``[0, range_max)``, ``k`` with probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``.

    It fits vocabularies that are sorted by falling frequency.
    """

    signature = _SIGNATURE
    attrs = {**_COUNTS, "range_max": Int(minimum=1), **_SEEDS}
    effect = RANDOM
    shape = _shapes
    consumes = _reserve
    gradient = _DRAWN

    def kernel(ctx, inputs, attrs):
        size = attrs["range_max"]
        span = math.log1p(size)
        view = philox.reinterpret(ctx)

        def draw(ctx, stream, places):
            uniform = philox.float64(ctx.xp, *_pairs(ctx, stream, places), view)
            return (ctx.xp.exp(uniform * span).astype(np.int64) - 1) % size

        def probability(classes):
            wide = classes.astype(np.float64)
            return (ctx.xp.log((wide + 2.0) / (wide + 1.0)) / span).astype(np.float32)

        return _sample(ctx, inputs[0], attrs, size, draw, probability)


class AllCandidateSampler(Op):
    """All classes ``0`` to ``num_sampled - 1``, each expected once."""

    signature = _SIGNATURE
    attrs = {**_COUNTS, **_SEEDS}
    effect = RANDOM
    shape = _shapes
    gradient = _DRAWN

    def consumes(c):
        return 0

    def kernel(ctx, inputs, attrs):
        xp, count = ctx.xp, attrs["num_sampled"]
        _check_true(ctx, inputs[0], attrs, count)
        ones = xp.ones((count,), np.float32)
        return xp.arange(count, dtype=np.int64), xp.ones(inputs[0].shape, np.float32), ones


# --------------------------------------------------------------------------------------------- given class frequencies
@memoized("weights of sampled classes", 8)
def _weights_of(vocab_file: str, unigrams: tuple[float, ...], distortion: float, reserved: int) -> np.ndarray:
    """The weight of each class; those of reserved ids are 0."""
    if vocab_file:
        counts = _counts_in(vocab_file)
    else:
        counts = list(unigrams)
    weights = np.power(np.array(counts, np.float32), np.float32(distortion))
    return np.concatenate([np.zeros(reserved, np.float32), weights])


def _counts_in(path: str) -> list[float]:
    """The last column of a file of comma-separated values.

    Raises:
        InvalidArgumentError: a line ends with something else than a number, or the file is not text. An error of the
        file system's kind: it cannot be read.
    """
    try:
        with file_errors.open_to_read(path) as file:
            text = file.read().decode()
        return [float(line[-1]) for line in csv.reader(io.StringIO(text, newline="")) if line]
    except OSError as problem:
        raise file_errors.error_of(problem, path) from problem
    except (ValueError, csv.Error) as problem:
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message(
                f"vocab_file={path!r}: {problem}",
                "lines of comma-separated values in UTF-8, the last of them the frequency of a class",
                "write such a file, or give the frequencies as unigrams=[...]",
            ),
        ) from problem


def _alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's table: class ``i`` is kept with the first entry's probability, else the second's class is taken."""
    size = len(weights)
    other = np.full(size, -1, np.int64)
    share = weights.astype(np.float64) * size / weights.astype(np.float64).sum()
    low = [i for i in range(size) if share[i] < 1]
    high = [i for i in range(size) if share[i] >= 1]
    while high and low:
        small, large = low.pop(), high.pop()
        other[small] = large
        share[large] -= 1.0 - share[small]
        (low if share[large] < 1 else high).append(large)
    share[[*high, *low]] = 1.0
    return share.astype(np.float32), other


@memoized("tables of sampled classes", 8)
def _table(
    vocab_file: str, unigrams: tuple[float, ...], distortion: float, reserved: int, shards: int, shard: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of the classes of a shard, and their alias table."""
    weights = _weights_of(vocab_file, unigrams, distortion, reserved)[shard::shards]
    return (weights, *_alias_table(weights))


class FixedUnigramCandidateSampler(Op):
    """Classes drawn by frequencies of ``unigrams`` or the last column of ``vocab_file``, to the power ``distortion``.

    With ``num_shards`` only every ``num_shards``-th class, from ``shard`` on, takes part; classes are numbered, and
    ``range_max`` counts them, within the shard. A true class that has no frequency is never drawn: its expected count
    is 0, as in TensorFlow 1.x.
    """

    signature = _SIGNATURE
    attrs = {
        **_COUNTS,
        "range_max": Int(minimum=1),
        "vocab_file": String(""),
        "distortion": Float(1.0),
        "num_reserved_ids": Int(0),
        "num_shards": Int(1, minimum=1),
        "shard": Int(0),
        "unigrams": List("float", ()),
        **_SEEDS,
    }
    effect = RANDOM
    consumes = _reserve
    gradient = _DRAWN

    def shape(c):
        given, shard, shards = c.attrs["unigrams"], c.attrs["shard"], c.attrs["num_shards"]
        if bool(given) == bool(c.attrs["vocab_file"]):
            raise ValueError(
                "Must provide either vocab_file or unigrams.\n"
                + errors.message(
                    f"vocab_file={c.attrs['vocab_file']!r} and {len(given)} unigrams",
                    "one of the two arguments",
                    "unigrams=[...]",
                )
            )
        if not 0 <= shard < shards:
            raise ValueError(errors.message(f"shard={shard} of {shards}", f"a shard from 0 to {shards - 1}", "shard=0"))
        return _shapes(c)

    def kernel(ctx, inputs, attrs):
        xp, size = ctx.xp, attrs["range_max"]
        key = (attrs["vocab_file"], attrs["unigrams"], attrs["distortion"], attrs["num_reserved_ids"])
        weights, share, other = _table(*key, attrs["num_shards"], attrs["shard"])
        ctx.check(
            len(weights) == size,
            errors.InvalidArgumentError,
            f"range is {size} must be equal to weights size {len(weights)}\n"
            + errors.message(
                f"{len(weights)} classes of the shard, reserved ones included, and range_max={size}",
                "as many classes as range_max says",
                f"range_max={len(weights)}",
            ),
        )
        total = np.sum(weights, dtype=np.float32)
        table = [xp.asarray(part) for part in (share, other, weights / total)]
        view = philox.reinterpret(ctx)

        def draw(ctx, stream, places):
            first, second = _pairs(ctx, stream, places)
            uniform = philox.float32(xp, first, view)
            bucket = (second % np.uint32(len(weights))).astype(np.int64)
            return xp.where(uniform < table[0][bucket], bucket, table[1][bucket])

        def probability(classes):
            known = (classes >= 0) & (classes < size)
            return xp.where(known, table[2][xp.where(known, classes, 0)], np.float32(0))

        drawn = int(np.count_nonzero(weights))
        return _sample(ctx, inputs[0], attrs, drawn, draw, probability, only_known=False)


# ------------------------------------------------------------------------------------------- learned class frequencies
_learned: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, np.ndarray]] = weakref.WeakKeyDictionary()
"""Session's resources -> op -> how often each class was seen as a true one, plus 1."""


def _learned_weights(ctx: Any, size: int) -> np.ndarray:
    owner, op = getattr(ctx, "manager", None), ctx.op
    if owner is None or op is None:
        return np.ones(size, np.int64)  # run alone: nothing is learned
    of_session = _learned.setdefault(owner, weakref.WeakKeyDictionary())
    if op not in of_session:
        of_session[op] = np.ones(size, np.int64)
    return of_session[op]


def _learned_unigram(ctx: Any, inputs: Any, attrs: Any) -> Any:
    (true,) = inputs
    size = attrs["range_max"]
    weights = _learned_weights(ctx, size)
    cumulated = np.cumsum(weights)
    total = cumulated[-1]

    def draw(ctx: Any, stream: Any, places: Any) -> Any:
        picked = _words(ctx, stream, places).astype(np.int64) % total
        return np.searchsorted(cumulated, picked, side="right")

    def probability(classes: Any) -> Any:
        return weights[classes].astype(np.float32) / np.float32(total)

    sample = _sample(ctx, true, attrs, size, draw, probability)
    np.add.at(weights, true.ravel(), 1)
    return sample


class LearnedUnigramCandidateSampler(Op):
    """Classes drawn by how often each was a true one in earlier executions of this op in this session, plus 1."""

    signature = _SIGNATURE
    attrs = {**_COUNTS, "range_max": Int(minimum=1), **_SEEDS}
    effect = RANDOM
    shape = _shapes
    consumes = _reserve
    gradient = _DRAWN
    host_kernel = _learned_unigram


class ThreadUnsafeUnigramCandidateSampler(Op):
    """LearnedUnigramCandidateSampler under the name of the form without a lock."""

    signature = _SIGNATURE
    attrs = {**_COUNTS, "range_max": Int(minimum=1), **_SEEDS}
    effect = RANDOM
    shape = _shapes
    consumes = _reserve
    gradient = _DRAWN
    host_kernel = _learned_unigram


# ----------------------------------------------------------------------------------------------------- accidental hits
class ComputeAccidentalHits(Op):
    """Where a sampled candidate is a true class: its row, its place in the sample, and the lowest float as weight."""

    signature = "true_classes: int64, sampled_candidates: int64 -> indices: int32, ids: int64, weights: float"
    attrs = {"num_true": Int(), **_SEEDS}
    effect = PURE
    gradient = NotDifferentiable("which candidates are true classes is a comparison of whole numbers")

    def shape(c):
        true = c.with_rank("true_classes", 2)
        c.with_rank("sampled_candidates", 1)
        if true[1] not in (None, c.attrs["num_true"]):
            raise ValueError(
                f"Dimension must be {c.attrs['num_true']} but is {true[1]}\n"
                + errors.message(
                    f"true_classes with {true[1]} columns and num_true={c.attrs['num_true']}",
                    "as many columns",
                    f"num_true={true[1]}",
                )
            )
        return [(None,)] * 3

    def bound(c):
        true = c.shapes[0]
        size = None if true is None or None in true else true[0] * true[1]
        return [(size,)] * 3

    def host_kernel(ctx, inputs, attrs):
        true, sampled = inputs
        ctx.check(
            true.ndim == 2 and true.shape[1] == attrs["num_true"],
            errors.InvalidArgumentError,
            "true_candidates must be a batch_size * num_true matrix",
        )
        place = {int(candidate): i for i, candidate in enumerate(sampled)}
        hits = [(row, place[int(item)]) for row, line in enumerate(true) for item in line if int(item) in place]
        rows, ids = zip(*hits, strict=True) if hits else ((), ())
        lowest = np.full(len(hits), np.finfo(np.float32).min)
        return np.array(rows, np.int32), np.array(ids, np.int64), lowest
