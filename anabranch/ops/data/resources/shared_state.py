"""What iterators share: caches in memory, generators of seeds, pools of threads, and iterators without a name.

TensorFlow makes most of these anew each time that their op runs, with a *deleter* beside the handle, and deletes them
when the deleter is run. Here such a resource lives until it is deleted, or its session ends. A *dummy* stands for none:
the pipeline keeps what it would have kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.kernels import of_kind
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, String, channel, define
from anabranch.ops.data.buffering import Cache, Memory
from anabranch.ops.data.iterators import IteratorResource
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, THREADS, Context, Iterator, number, stage
from anabranch.ops.data.random_words import RandomWords
from anabranch.ops.data.settings import Same
from anabranch.ops.data.shuffling import Shuffle, ShuffleAndRepeat
from anabranch.ops.data.sources import Random

_NO_GRADIENT = NotDifferentiable("a resource is not a number")
_numbers = itertools.count()


class Deleter:
    """What deletes a resource that has no name, as the value of a variant tensor."""

    shape = ()
    ndim = 0
    size = 1
    dtype = np.dtype(object)

    def __init__(self, handle: Any) -> None:
        self.handle = handle


def nameless(ctx: Any, kind: str, thing: Any) -> Any:
    """The handle of a resource that was made just now."""
    handle = ctx.handle(kind, "", f"anonymous_{kind}_{next(_numbers)}", "")
    ctx.manager.shared.object(handle, lambda: thing)
    return handle


def _delete(ctx: Any, inputs: Any, attrs: Any) -> Any:
    for handle in inputs[:-1]:
        ctx.release(handle, ignore_missing=True)
    return ()


def _define_nameless(
    names: dict[str, str],
    deleter: str,
    kind: str,
    doc: str,
    create: Callable[..., Any],
    inputs: str = "",
    attrs: Any = None,
) -> None:
    """The ops that make and delete a kind of resources; ``names`` are types with what they give out."""
    for name, outputs in names.items():

        def kernel(ctx: Any, values: Any, given: Any, outputs: str = outputs) -> Any:
            handle = nameless(ctx, kind, create(ctx, values, given))
            return [handle, Deleter(handle)] if "deleter" in outputs else [handle]

        define(
            name,
            f"{doc} It is made when the op runs, and lives until it is deleted or the session ends.",
            signature=f"{inputs} -> {outputs}",
            attrs=attrs or {},
            effect=channel(),
            shape=lambda c: [()] * len(c.definition.outputs),
            host_kernel=kernel,
            gradient=_NO_GRADIENT,
        )
    if deleter:
        define(
            deleter,
            f"Delete a resource without a name. {doc}",
            signature="handle: resource, deleter: variant ->",
            effect=channel("handle"),
            shape=inference.no_outputs,
            host_kernel=_delete,
            gradient=_NO_GRADIENT,
        )


_BOTH = "handle: resource, deleter: variant"
_define_nameless(
    {"AnonymousIterator": "handle: resource", "AnonymousIteratorV2": _BOTH, "AnonymousIteratorV3": "handle: resource"},
    "DeleteIterator",
    "iterator",
    "An iterator, which ``MakeIterator`` sets to the beginning of a dataset.",
    lambda ctx, values, attrs: IteratorResource(ctx.op.name, attrs),
    attrs=ELEMENTS,
)


# --------------------------------------------------------------------------------------------------------------- caches
class MemoryCache:
    """The elements of caches, for all iterators that share it."""

    def __init__(self) -> None:
        self.memory = Memory()


_define_nameless(
    {"AnonymousMemoryCache": _BOTH},
    "DeleteMemoryCache",
    "memory_cache",
    "A cache in memory, which iterators share.",
    lambda ctx, values, attrs: MemoryCache(),
)


class Dummy:
    """A resource that stands for none."""


for _type in ("DummyMemoryCache", "DummySeedGenerator"):
    define(
        _type,
        "A handle that stands for none: each pipeline has its own.",
        signature="-> handle: resource",
        effect=PURE,
        makes="dummy",
        create=lambda attrs, name: Dummy(),
        shape=inference.scalar,
        gradient=_NO_GRADIENT,
    )


@stage("CacheDatasetV2", "input_dataset: variant, filename: string, cache: resource")
class SharedCache(Cache):
    """The elements of the input, which is gone through once, for all iterators with the same ``cache``."""

    free = Cache.free | {"cache"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        cache = ctx.resource(operands["cache"])
        self.shared = None if isinstance(cache, Dummy) else of_kind(ctx, cache, MemoryCache, "a cache").memory

    def memory(self, context: Context) -> Memory:
        """That of the resource."""
        return super().memory(context) if self.shared is None else self.shared


# ---------------------------------------------------------------------------------------------------------------- seeds
class SeedGenerator:
    """A stream from which passes draw their two seeds; or the same two for each."""

    def __init__(self, seeds: tuple[int, int], reshuffles: bool) -> None:
        self.words = RandomWords(*seeds)
        self.reshuffles = reshuffles

    def seeds(self) -> list[int]:
        """Those of the next pass."""
        if not self.reshuffles:
            return [self.words.seed, self.words.seed2]
        drawn: list[int] = self.words.take(2).tolist()
        return drawn


def _generator(ctx: Any, values: Any, attrs: Any) -> SeedGenerator:
    seeds = number(ctx, values[0], "seed"), number(ctx, values[1], "seed2")
    return SeedGenerator(seeds, bool(values[2]) if len(values) > 2 else True)


_SEEDS = "seed: int64, seed2: int64"
_define_nameless(
    {"AnonymousRandomSeedGenerator": _BOTH},
    "DeleteRandomSeedGenerator",
    "seed_generator",
    "A generator of seeds, which shuffles share.",
    _generator,
    _SEEDS,
)
_define_nameless(
    {"AnonymousSeedGenerator": _BOTH},
    "DeleteSeedGenerator",
    "seed_generator",
    "A generator of seeds, which shuffles share; with ``reshuffle`` each pass has others.",
    _generator,
    f"{_SEEDS}, reshuffle: bool",
)


class _Seeded:
    """A stage whose passes draw their seeds from a generator that it is given."""

    generator: SeedGenerator | None = None

    def take_generator(self, ctx: Any, operands: dict[str, Any]) -> None:
        """Keep the generator behind the operand, unless that stands for none."""
        thing = ctx.resource(operands["seed_generator"])
        if not isinstance(thing, Dummy):
            self.generator = of_kind(ctx, thing, SeedGenerator, "a generator of seeds")


_BUFFER = "input_dataset: variant, buffer_size: int64"
_DEFAULTS = {"reshuffle_each_iteration": True}
_NO_SEEDS = {"seed": np.int64(0), "seed2": np.int64(0)}


@stage(
    "ShuffleDatasetV3",
    f"{_BUFFER}, {_SEEDS}, seed_generator: resource",
    {"reshuffle_each_iteration": Bool(True), **ELEMENTS, **METADATA},
)
@stage("ShuffleDatasetV2", f"{_BUFFER}, seed_generator: resource")
class ShuffleByGenerator(_Seeded, Shuffle):
    """The input's elements in random order; each pass draws its seeds from ``seed_generator``."""

    free = Shuffle.free | {"seed_generator"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, _DEFAULTS | attrs, **(_NO_SEEDS | operands))
        self.take_generator(ctx, operands)

    def seeds_of_pass(self, context: Context) -> Any:
        """Those that the generator gives, or the pipeline's own."""
        return super().seeds_of_pass(context) if self.generator is None else self.generator.seeds()


@stage(
    "ShuffleAndRepeatDatasetV2",
    f"{_BUFFER}, {_SEEDS}, count: int64, seed_generator: resource",
    {"reshuffle_each_iteration": Bool(True), **ELEMENTS, **METADATA},
)
class ShuffleAndRepeatByGenerator(_Seeded, ShuffleAndRepeat):
    """The input ``count`` times over, each pass in random order; the seeds come from ``seed_generator``."""

    free = ShuffleAndRepeat.free | {"seed_generator"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.take_generator(ctx, operands)

    def seeds_of_pass(self, context: Context) -> Any:
        """Those that the generator gives, or the pipeline's own."""
        return super().seeds_of_pass(context) if self.generator is None else self.generator.seeds()


@stage(
    "RandomDatasetV2",
    f"{_SEEDS}, seed_generator: resource",
    {"rerandomize_each_iteration": Bool(False), **ELEMENTS, **METADATA},
)
class RandomByGenerator(_Seeded, Random):
    """The 32-bit words of TensorFlow's generator for two seeds, without end; others for each pass if that is wanted."""

    free = Random.free | {"seed_generator"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.take_generator(ctx, operands)
        self.rerandomizes = bool(attrs["rerandomize_each_iteration"])

    def seeds_of_pass(self, context: Context) -> list[int]:
        """Those of the operands, or for each pass those that the generator gives, or the pipeline's own stream."""
        if not self.rerandomizes:
            return super().seeds_of_pass(context)
        if self.generator is not None:
            return self.generator.seeds()
        seeds: list[int] = context.pipeline.stream(context.place, (self.seeds[0], self.seeds[1])).take(2).tolist()
        return seeds


# -------------------------------------------------------------------------------------------------------------- threads
class ThreadPool:
    """A number of threads that stages may take at most."""

    def __init__(self, threads: int) -> None:
        self.threads = threads


def _pool(attrs: dict[str, Any], name: str) -> ThreadPool:
    return ThreadPool(attrs["num_threads"])


for _type in ("ThreadPoolHandle", "ExperimentalThreadPoolHandle"):
    define(
        _type,
        "A pool of threads: how many the stages before a ``ThreadPoolDataset`` take at most.",
        signature="-> handle: resource",
        attrs={
            "num_threads": Int(),
            "max_intra_op_parallelism": Int(1),
            "display_name": String(),
            "container": String(""),
            "shared_name": String(""),
        },
        effect=PURE,
        makes="thread_pool",
        create=_pool,
        shape=inference.scalar,
        gradient=_NO_GRADIENT,
    )

_POOLED = "input_dataset: variant, thread_pool: resource"


@stage("ThreadPoolDataset", _POOLED, ELEMENTS)
@stage("ExperimentalThreadPoolDataset", _POOLED, ELEMENTS)
class InThreadPool(Same):
    """The elements of the input, whose stages take as many threads as a pool has at most."""

    free = Same.free | {"thread_pool"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        pool: ThreadPool = of_kind(ctx, ctx.resource(operands["thread_pool"]), ThreadPool, "a pool of threads")
        self.threads = max(1, pool.threads)

    def iterate(self, context: Context) -> Iterator:
        """An iterator of the input."""
        context.say(THREADS, self.threads)
        return super().iterate(context)
