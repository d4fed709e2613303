"""``tf.data.Dataset``: sequences of elements as values of the graph.

A dataset object is a variant tensor, what makes the dataset when it runs, and the structure of its elements. Methods
add the op of one more stage; nothing is read until an iterator is asked for elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes, version_two
from anabranch.core.values.shapes import TensorShape
from anabranch.data import function_bodies, generators, iterators, nest, options, padding, structure
from anabranch.data.operands import length, number, seeds, static_size
from anabranch.data.options import Options
from anabranch.data.structure import Component, DatasetComponent, SparseComponent, TensorComponent

AUTOTUNE = -1


@public("data.Dataset", "contrib.data.Dataset")
class Dataset(structure.OfElements):
    """A sequence of elements, each a structure (tuple, dictionary) of tensors, sparse tensors or datasets.

    It is made by ``from_tensors``, ``from_tensor_slices``, ``from_generator``, ``range``, ``list_files`` or a class
    that reads files, and by the methods of another one.

    Example:
        >>> import anabranch as tf
        >>> dataset = tf.data.Dataset.range(6).map(lambda x: x * x).batch(4)
        >>> element = dataset.make_one_shot_iterator().get_next()
        >>> with tf.Session() as session:
        ...     print(session.run(element), session.run(element))
        [0 1 4 9] [16 25]
    """

    def __init__(
        self,
        variant_tensor: Tensor,
        spec: Any,
        inputs: tuple[Dataset, ...] = (),
        options: Options | None = None,
    ) -> None:
        self._variant_tensor = variant_tensor
        self._spec = spec
        self._inputs_of = inputs
        self._own_options = options

    # ---------------------------------------------------------------------------------------------- what it consists of
    @property
    def _attrs(self) -> dict[str, Any]:
        return structure.attrs_of(self._spec)

    def _inputs(self) -> list[Dataset]:
        return list(self._inputs_of)

    def _as_variant_tensor(self) -> Tensor:
        return self._variant_tensor

    def options(self) -> Options:
        """Its options and those of the datasets that it is made of."""
        merged = Options()
        for item in self._inputs_of:
            merged = merged.merge(item.options())
        return merged if self._own_options is None else merged.merge(self._own_options)

    def cardinality(self) -> Any:
        """How many elements there are: see `tf.data.experimental.cardinality`."""
        return build("DatasetCardinality", self._variant_tensor)

    def __repr__(self) -> str:
        told = nest.map_structure(str, self.output_shapes), nest.map_structure(repr, self.output_types)
        sizes, types = (str(item).replace("'", "") for item in told)
        return f"<{type(self).__name__} shapes: {sizes}, types: {types}>"

    def __iter__(self) -> Any:
        """The elements, where ops run at once."""
        if not current_builder().defers:
            return iter(self.make_one_shot_iterator())
        raise RuntimeError(
            "__iter__() is only supported inside of tf.function or when eager execution is enabled.\n"
            + errors.message(
                "a loop over a dataset of a graph",
                "an iterator whose next element a session runs",
                "dataset.make_one_shot_iterator().get_next()",
            )
        )

    def _stage(self, type_name: str, *operands: Any, spec: Any = None, **attrs: Any) -> Dataset:
        """This dataset behind one more stage."""
        spec = self._spec if spec is None else spec
        return Dataset(
            build(type_name, self._variant_tensor, *operands, **structure.attrs_of(spec), **attrs), spec, (self,)
        )

    # ---------------------------------------------------------------------------------------------------------- sources
    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """A dataset of one element, ``tensors``."""
        with name_scope("normalize_element"):
            element, spec = structure.normalized(tensors)
            parts = structure.to_tensors(spec, element)
        return _of_components("TensorDataset", parts, spec)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """A dataset whose elements are the rows of ``tensors``, arrays or a structure of arrays of equal length.

        Example:
            >>> import anabranch as tf
            >>> dataset = tf.data.Dataset.from_tensor_slices(([1, 2, 3], [[1.0], [2.0], [3.0]]))
            >>> dataset.output_shapes
            (TensorShape([]), TensorShape([1]))
        """
        with name_scope("normalize_element"):
            element, whole = structure.normalized(tensors)
            for component in nest.flatten(whole):
                if component.outer_shape.ndims == 0:
                    raise ValueError(
                        "A value of from_tensor_slices has insufficient rank for batching.\n"
                        + errors.message(
                            "a scalar in from_tensor_slices",
                            "tensors with a first dimension",
                            "Dataset.from_tensors(x)",
                        )
                    )
            parts = [
                component.to_rows(value)
                for component, value in zip(nest.flatten(whole), nest.flatten(element), strict=True)
            ]
        sizes = TensorShape([None])
        for component in nest.flatten(whole):
            if component.outer_shape.ndims is not None:
                sizes = sizes.merge_with(component.outer_shape[:1])
        spec = nest.map_structure(lambda component: component.row(), whole)
        return _of_components("TensorSliceDataset", parts, spec)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """A dataset of the rows of a sparse tensor, each as a tuple (indices, values, dense_shape)."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(
                "`sparse_tensor` must be a `tf.SparseTensor` object.Was "
                f"{sparse_tensor}.\n"
                + errors.message(
                    type(sparse_tensor).__name__, "a sparse tensor", "tf.SparseTensor(indices, values, dense_shape)"
                )
            )
        rank = sparse_tensor.shape.ndims
        inner = None if rank is None else rank - 1
        spec = (
            TensorComponent(dtypes.int64, TensorShape([None, inner])),
            TensorComponent(sparse_tensor.dtype, TensorShape([None])),
            TensorComponent(dtypes.int64, TensorShape([inner])),
        )
        parts = sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape
        return Dataset(build("SparseTensorSliceDataset", *parts), spec)

    @staticmethod
    def from_generator(
        generator: Any,
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
    ) -> Dataset:
        """A dataset of what a Python generator gives.

        Args:
            generator: a function that returns something to iterate over, called for each pass.
            output_types: the dtype of each component.
            output_shapes: their static shapes; unknown if None.
            args: tensors whose values the function is called with.
            output_signature: a structure of `tf.TensorSpec` and `tf.SparseTensorSpec`, in place of dtypes and shapes.

        Raises:
            TypeError: the signature holds something else, or neither dtypes nor a signature are given.
        """
        if output_signature is not None:
            spec = structure.of_signature(output_signature)
        elif output_types is None:
            raise TypeError(
                errors.message("from_generator(f)", "the dtypes of its elements", "from_generator(f, tf.int64)")
            )
        else:
            spec = structure.from_legacy(output_types, output_shapes, None)
        return generators.dataset_of(Dataset, generator, spec, args)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """The int64 numbers of ``range(stop)``, ``range(start, stop)`` or ``range(start, stop, step)``."""
        if not 1 <= len(args) <= 3:
            raise ValueError(
                f"Invalid arguments to RangeDataset: {args}\n"
                + errors.message(f"{len(args)} arguments", "one to three", "Dataset.range(start, stop, step)")
            )
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        spec = TensorComponent(dtypes.int64, TensorShape([]))
        operands = number(start, "start"), number(stop, "stop"), number(step, "step")
        return Dataset(build("RangeDataset", *operands, **structure.attrs_of(spec)), spec)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: Any = None, seed: Any = None) -> Dataset:
        """A dataset of the names of files that match a pattern, or one of several.

        Args:
            file_pattern: a string with wildcards, or several in a list or tensor.
            shuffle: whether names come in random order, another one for each pass; sorted if False. True if None.
            seed: with it (or a graph's seed) the order is TensorFlow's own.
        """
        with name_scope("list_files"):
            patterns = convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
            names = build("MatchingFiles", patterns)
            # Op by op like TensorFlow 1.15, which counts them for the seeds of what follows.
            some = build("Greater", length(names, dtypes.int32), 0, name="match_not_empty")
            rank = patterns.shape.ndims
            axes = build("Range", 0, build("Rank", patterns), 1) if rank is None else np.arange(rank, dtype=np.int32)
            joined = build("ReduceJoin", patterns, axes, separator=", ")
            there = build(
                "Assert", some, [build("Add", "No files matched pattern: ", joined, name="message")], summarize=1
            )
            with current_builder().control_dependencies([there]):
                names = build("Identity", names)
            dataset = Dataset.from_tensor_slices(names)
            if shuffle or shuffle is None:
                dataset = dataset.shuffle(build("Maximum", length(names, dtypes.int64), np.int64(1)), seed=seed)
            return dataset

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """A dataset of structures, like ``datasets``, of an element of each; as long as the shortest."""
        for item in nest.flatten(datasets):
            if not isinstance(item, Dataset):
                hint = " Nested structures do not support Python lists; please use a tuple instead."
                raise TypeError(
                    "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects."
                    + (hint if isinstance(item, list) else "")
                    + "\n"
                    + errors.message(type(item).__name__, "datasets in a tuple or dictionary", "Dataset.zip((a, b))")
                )
        flat = nest.flatten(datasets)
        spec = nest.pack_sequence_as(datasets, [item._spec for item in flat])
        tensors = [item._variant_tensor for item in flat]
        return Dataset(build("ZipDataset", tensors, **structure.attrs_of(spec)), spec, tuple(flat))

    # --------------------------------------------------------------------------------------------------- which elements
    def concatenate(self, dataset: Dataset) -> Dataset:
        """Its elements, then those of ``dataset``, whose components have the same types."""
        if self.output_types != dataset.output_types:
            raise TypeError(
                "Two datasets to concatenate have different types "
                f"{self.output_types} and {dataset.output_types}\n"
                + errors.message(
                    "two types of elements", "elements of one type", "dataset.map(lambda x: tf.cast(x, ...))"
                )
            )
        if self.output_classes != dataset.output_classes:
            raise TypeError(
                "Two datasets to concatenate have different classes "
                f"{self.output_classes} and {dataset.output_classes}\n"
                + errors.message("two classes of elements", "elements of one class", "tf.sparse.to_dense(x)")
            )
        components = [
            component
            if isinstance(component, DatasetComponent)
            else type(component)(component.dtype, component.shape.most_specific_compatible_shape(other.shape))
            for component, other in zip(nest.flatten(self._spec), nest.flatten(dataset._spec), strict=True)
        ]
        spec = nest.pack_sequence_as(self._spec, components)
        operands = self._variant_tensor, dataset._variant_tensor
        return Dataset(build("ConcatenateDataset", *operands, **structure.attrs_of(spec)), spec, (self, dataset))

    def repeat(self, count: Any = None) -> Dataset:
        """Its elements ``count`` times over; without end if ``count`` is None or -1."""
        return self._stage("RepeatDataset", number(-1 if count is None else count, "count"))

    def take(self, count: Any) -> Dataset:
        """Its first ``count`` elements; all if ``count`` is -1."""
        return self._stage("TakeDataset", number(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """What follows its first ``count`` elements; nothing if ``count`` is -1."""
        return self._stage("SkipDataset", number(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Each ``num_shards``-th of its elements, from number ``index`` on."""
        for value, name in ((num_shards, "num_shards"), (index, "index")):
            known = value if not isinstance(value, Tensor) else partial_value(value)
            if known is not None and int(known) < (name == "num_shards"):
                raise ValueError(
                    f"{name} must be >= {int(name == 'num_shards')}; got {known}\n"
                    + errors.message(f"{name}={known}", "shards from 1, an index from 0", "dataset.shard(4, 0)")
                )
        shards, place = number(num_shards, "num_shards"), number(index, "index")
        values = partial_value(shards), partial_value(place)
        if all(isinstance(value, np.ndarray) for value in values) and int(values[1]) >= int(values[0]):
            raise ValueError(
                f"index must be <= num_shards; {values[1]} is not < {values[0]}\n"
                + errors.message(f"index={values[1]} of {values[0]} shards", "an index below it", "dataset.shard(4, 3)")
            )
        return self._stage("ShardDataset", shards, place)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which ``predicate`` gives True, a scalar."""
        traced = function_bodies.trace(predicate, self._spec, "Dataset.filter()")
        component = traced.spec
        if not (
            isinstance(component, TensorComponent)
            and component.dtype is dtypes.bool_
            and component.shape.is_compatible_with(TensorShape([]))
        ):
            raise ValueError(
                "`predicate` must return a scalar boolean tensor.\n"
                + errors.message(f"{component!r}", "one boolean scalar", "dataset.filter(lambda x: x > 0)")
            )
        return self._calling("FilterDataset", traced, "predicate", spec=self._spec)

    # ------------------------------------------------------------------------------------------------------ their order
    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None) -> Dataset:
        """Its elements in random order, drawn from a buffer of ``buffer_size``.

        Args:
            buffer_size: how many elements are held to draw from; as many as there are for a uniform order.
            seed: with it (or a graph's seed) the order is TensorFlow's own.
            reshuffle_each_iteration: whether each pass has another order; True if None. After
                ``tf.enable_v2_behavior()`` and where ops run at once, passes of several iterators differ, too.
        """
        size = number(buffer_size, "buffer_size")
        low, high = seeds(seed)
        again = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        if version_two.is_everywhere() and not current_builder().defers:  # also each iterator has another order
            generator = build("AnonymousSeedGenerator", low, high, again)[0]
            return self._stage("ShuffleDatasetV3", size, low, high, generator, reshuffle_each_iteration=again)
        return self._stage("ShuffleDataset", size, low, high, reshuffle_each_iteration=again)

    def prefetch(self, buffer_size: Any) -> Dataset:
        """Its elements, up to ``buffer_size`` of which are made ahead where that pays; -1 leaves the number open."""
        return self._stage("PrefetchDataset", number(-1 if buffer_size is None else buffer_size, "buffer_size"))

    def cache(self, filename: Any = "") -> Dataset:
        """Its elements, kept in memory (or in a file) after the first pass."""
        return self._stage("CacheDataset", convert_to_tensor(filename, dtypes.string, name="filename"))

    def explain(self, session: Any = None, elements: int = 1000, seconds: float = 1.0) -> str:
        """A table of what its stages do: elements, time of each without those before it, and how it gives elements.

        It is gone through once, from its beginning, on an iterator of its own.

        Args:
            session: runs it; the default session, or one of its own, if None.
            elements: how many elements are taken at most.
            seconds: for how long at most.

        Example:
            >>> import anabranch as tf
            >>> dataset = tf.data.Dataset.range(1000).map(lambda x: x * 2 + 1).batch(100)
            >>> print(dataset.explain())  # doctest: +ELLIPSIS
            10 elements in ... ms
              stage ... us each ... how
            ...
                Map ... once for many elements
            ...
        """
        return iterators.report(self._variant_tensor, elements, seconds, session)

    # ----------------------------------------------------------------------------------------------- element by element
    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None) -> Dataset:
        """What ``map_func`` gives for each element.

        Args:
            map_func: called with an element (its parts as arguments if it is a tuple); returns a structure of tensors.
            num_parallel_calls: how many calls may run at a time; the elements and their order do not depend on it.
                Threads are used where calls take long and are faster on them, and the function has no effects.
        """
        traced = function_bodies.trace(map_func, self._spec, "Dataset.map()")
        return self._calling("MapDataset", traced, "f", num_parallel_calls)

    map_with_legacy_function = map
    filter_with_legacy_function = filter

    def _calling_several(
        self, type_name: str, functions: dict[str, function_bodies.Traced], spec: Any, *operands: Any, **attrs: Any
    ) -> Dataset:
        """This dataset behind a stage that calls several functions, given by their attributes."""
        captured = [traced.captured for traced in functions.values()]
        bodies = {name: traced.body for name, traced in functions.items()}
        dataset = self._stage(type_name, *captured, *operands, spec=spec, **bodies, **attrs)
        function_bodies.own(dataset._variant_tensor._made_by)
        return dataset

    def _calling(
        self,
        type_name: str,
        traced: function_bodies.Traced,
        attr: str,
        num_parallel_calls: Any = None,
        spec: Any = None,
        operands: tuple[Any, ...] = (),
        **attrs: Any,
    ) -> Dataset:
        if num_parallel_calls is not None and type_name == "MapDataset":
            type_name = "ParallelMapDataset"
            operands = (number(num_parallel_calls, "num_parallel_calls", dtypes.int32),)
        dataset = self._stage(
            type_name,
            traced.captured,
            *operands,
            spec=traced.spec if spec is None else spec,
            **{attr: traced.body},
            **attrs,
        )
        function_bodies.own(dataset._variant_tensor._made_by)
        return dataset

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """The elements of the datasets that ``map_func`` makes of its elements, one dataset after the other."""
        traced = function_bodies.trace(map_func, self._spec, "Dataset.flat_map()")
        return self._calling("FlatMapDataset", traced, "f", spec=function_bodies.inner_spec(traced))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = AUTOTUNE,
        block_length: Any = 1,
        num_parallel_calls: Any = None,
    ) -> Dataset:
        """Blocks of ``block_length`` elements, in turn, of ``cycle_length`` datasets that ``map_func`` makes.

        Args:
            map_func: makes a dataset of an element.
            cycle_length: how many datasets are open at a time; 10 if it is -1.
            block_length: how many elements of one come in a row.
            num_parallel_calls: how many may be read at a time; the order does not depend on it. Threads read
                ahead where elements take long to make, and the functions have no effects.
        """
        traced = function_bodies.trace(map_func, self._spec, "Dataset.interleave()")
        if isinstance(cycle_length, int) and cycle_length == AUTOTUNE:
            cycle_length = AUTOTUNED_CYCLE
        operands: tuple[Any, ...] = number(cycle_length, "cycle_length"), number(block_length, "block_length")
        if num_parallel_calls is None:
            return self._calling(
                "InterleaveDataset", traced, "f", spec=function_bodies.inner_spec(traced), operands=operands
            )
        operands = (*operands, number(num_parallel_calls, "num_parallel_calls"))
        return self._calling(
            "ParallelInterleaveDatasetV2", traced, "f", spec=function_bodies.inner_spec(traced), operands=operands
        )

    # ---------------------------------------------------------------------------------------------------------- batches
    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """Batches of ``batch_size`` elements ``[batch, ...]``, which must have one shape; the last one may have fewer.

        ``drop_remainder`` leaves out a last one that has fewer, and makes the static size known.
        """
        size = number(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        static = static_size(size, drop)
        spec = nest.map_structure(lambda component: component.batched(static), self._spec)
        return self._stage("BatchDatasetV2", size, drop, spec=spec)

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: Any = False
    ) -> Dataset:
        """Batches of elements that are filled up to one shape each.

        Args:
            batch_size: how many elements make a batch.
            padded_shapes: the shape of each component, None or -1 in it for the largest of the batch; if None the
                components' own shapes, whose ranks must be known.
            padding_values: what fills each component up, a scalar; zeros and empty strings if None.
            drop_remainder: whether a last batch that has fewer elements is left out.
        """
        size = number(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        padded, values, spec = padding.operands(self._spec, padded_shapes, padding_values, static_size(size, drop))
        attrs = {
            "Toutput_types": structure.flat_types(spec),
            "output_shapes": structure.attrs_of(spec)["output_shapes"],
        }
        variant = build("PaddedBatchDatasetV2", self._variant_tensor, size, padded, values, drop, **attrs)
        return Dataset(variant, spec, (self,))

    def window(self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False) -> Dataset:
        """Windows of ``size`` elements, each component a dataset of its own.

        Args:
            size: how many elements a window holds.
            shift: how far the next one begins behind it; ``size`` if None.
            stride: which of the elements it takes: each ``stride``-th.
            drop_remainder: whether windows at the end that have fewer are left out.

        Example:
            >>> import anabranch as tf
            >>> windows = tf.data.Dataset.range(5).window(3, shift=1, drop_remainder=True)
            >>> element = windows.flat_map(lambda window: window.batch(3)).make_one_shot_iterator().get_next()
            >>> with tf.Session() as session:
            ...     print(session.run(element), session.run(element))
            [0 1 2] [1 2 3]
        """
        operands = [
            number(value, name)
            for value, name in ((size, "size"), (size if shift is None else shift, "shift"), (stride, "stride"))
        ]
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        spec = nest.map_structure(lambda component: DatasetComponent(component, of_variant), self._spec)
        return self._stage("WindowDataset", *operands, drop, spec=spec)

    def unbatch(self) -> Dataset:
        """The rows of its elements, one after the other."""
        size = TensorShape([None])
        for component in nest.flatten(self._spec):
            shape = component.outer_shape
            if shape.ndims == 0:
                raise ValueError(
                    "Cannot unbatch an input with scalar components.\n"
                    + errors.message(f"{component!r}", "tensors with a first dimension", "dataset.batch(1)")
                )
            if shape.ndims is not None:
                size = size.merge_with(shape[:1])
        rows = nest.map_structure(lambda component: component.row(), self._spec)
        return self._by_rows()._stage("UnbatchDataset", spec=rows)

    def _by_rows(self) -> Dataset:
        """The same elements, as tensors whose rows are those of the components' rows."""
        if not any(isinstance(component, SparseComponent) for component in nest.flatten(self._spec)):
            return self

        def rows(*element: Any) -> tuple[Tensor, ...]:
            whole = element if function_bodies.unpacks(self._spec) else element[0]
            pairs = zip(nest.flatten(self._spec), nest.flatten(whole), strict=True)
            return tuple([component.to_rows(value) for component, value in pairs])

        return self.map(rows)

    # ----------------------------------------------------------------------------------------------------------- others
    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Dataset:
        """What ``transformation_func`` makes of this dataset."""
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "`transformation_func` must return a Dataset.\n"
                + errors.message(f"{transformation_func!r} that returns {dataset!r}", "a dataset", "return dataset")
            )
        return dataset

    def enumerate(self, start: Any = 0) -> Dataset:
        """Pairs of a number, from ``start`` on, and an element."""
        return Dataset.zip((Dataset.range(start, dtypes.int64.max), self))

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """What is left after ``reduce_func(state, element)`` has been called for each element, as tensors.

        Example:
            >>> import anabranch as tf
            >>> total = tf.data.Dataset.range(5).reduce(tf.constant(0, tf.int64), lambda state, x: state + x)
            >>> with tf.Session() as session:
            ...     session.run(total)
            np.int64(10)
        """
        with name_scope("normalize_element"):
            state, spec = structure.normalized(initial_state)
            tensors = structure.to_tensors(spec, state)
        traced, spec = function_bodies.trace_state(reduce_func, spec, self._spec, "Dataset.reduce()")
        outputs = build(
            "ReduceDataset",
            self._variant_tensor,
            tensors,
            traced.captured,
            f=traced.body,
            **structure.attrs_of(spec),
        )
        flat = outputs if isinstance(outputs, list) else [outputs]
        function_bodies.own(flat[0]._made_by)
        return structure.from_tensors(spec, flat)

    def with_options(self, options: Options) -> Dataset:
        """The same elements, gone through with these options, and those that it has."""
        if not isinstance(options, Options):
            raise TypeError(errors.message(f"options={options!r}", "a tf.data.Options", "tf.data.Options()"))
        self.options().merge(options)
        return Dataset(self._variant_tensor, self._spec, (self,), options)

    def _with_options_applied(self) -> Dataset:
        """The dataset behind the stages that its options stand for."""
        return options.applied(self, self.options())

    # -------------------------------------------------------------------------------------------------------- iterators
    def make_one_shot_iterator(self) -> Any:
        """An iterator that goes through the dataset once, and needs no initialisation."""
        return iterators.one_shot(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """An iterator that begins when ``iterator.initializer`` runs.

        Args:
            shared_name: name under which sessions share it; its own if None.
        """
        return iterators.initializable(self, shared_name)

    def _make_one_shot_iterator(self) -> Any:
        return self.make_one_shot_iterator()

    def _make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        return self.make_initializable_iterator(shared_name)


AUTOTUNED_CYCLE = 10
"""Datasets that an interleave opens if it is left to us."""


def _of_components(type_name: str, parts: list[Tensor], spec: Any) -> Dataset:
    attrs = structure.attrs_of(spec)
    return Dataset(build(type_name, parts, output_shapes=attrs["output_shapes"]), spec)


def of_variant(tensor: Tensor, spec: Any) -> Dataset:
    """The dataset of a variant tensor."""
    return Dataset(tensor, spec)


def _component_of(value: Any) -> Component | None:
    return DatasetComponent(value._spec, of_variant) if isinstance(value, Dataset) else None


structure.add_component(_component_of)


__all__ = ["AUTOTUNE", "Dataset", "number", "of_variant", "seeds", "static_size"]
