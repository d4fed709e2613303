"""Where the ops of datasets are tested: their values are datasets, and what these give are elements."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

GOLDEN = "tools/golden/dataset_cases.py"
STAGES = "tests/ops/data/test_stages.py"
ITERATORS = "tests/data/test_iterators.py"

ROWS = [
    elsewhere("TensorDataset", GOLDEN, "from_tensors("),
    elsewhere("TensorSliceDataset", GOLDEN, "from_tensor_slices("),
    elsewhere("SparseTensorSliceDataset", GOLDEN, "from_sparse_tensor_slices("),
    elsewhere("RangeDataset", GOLDEN, "D.range("),
    elsewhere("RepeatDataset", GOLDEN, ".repeat("),
    elsewhere("TakeDataset", GOLDEN, ".take("),
    elsewhere("SkipDataset", GOLDEN, ".skip("),
    elsewhere("ShardDataset", GOLDEN, ".shard("),
    elsewhere("ConcatenateDataset", GOLDEN, ".concatenate("),
    elsewhere("ZipDataset", GOLDEN, "D.zip("),
    elsewhere("BatchDataset", STAGES, '"BatchDataset"'),
    elsewhere("BatchDatasetV2", GOLDEN, ".batch("),
    elsewhere("PaddedBatchDataset", STAGES, '"PaddedBatchDataset"'),
    elsewhere("PaddedBatchDatasetV2", GOLDEN, ".padded_batch("),
    elsewhere("UnbatchDataset", GOLDEN, "unbatch()"),
    elsewhere("ShuffleDataset", GOLDEN, ".shuffle("),
    elsewhere("ShuffleAndRepeatDataset", GOLDEN, "shuffle_and_repeat("),
    elsewhere("MapDataset", GOLDEN, ".map("),
    elsewhere("ParallelMapDataset", GOLDEN, "num_parallel_calls=4"),
    elsewhere("ParallelMapDatasetV2", STAGES, '"ParallelMapDatasetV2"'),
    elsewhere("FilterDataset", GOLDEN, ".filter("),
    elsewhere("FilterByLastComponentDataset", STAGES, '"FilterByLastComponentDataset"'),
    elsewhere("FlatMapDataset", GOLDEN, ".flat_map("),
    elsewhere("InterleaveDataset", GOLDEN, ".interleave("),
    elsewhere("ParallelInterleaveDatasetV2", GOLDEN, "interleave_parallel"),
    elsewhere("GeneratorDataset", GOLDEN, "from_generator("),
    elsewhere("CacheDataset", GOLDEN, ".cache("),
    elsewhere("PrefetchDataset", GOLDEN, ".prefetch("),
    elsewhere("OptimizeDataset", "tests/data/test_dataset.py", "OptimizeDataset"),
    elsewhere("OptimizeDatasetV2", STAGES, '"OptimizeDatasetV2"'),
    elsewhere("ModelDataset", "tests/data/test_dataset.py", "ModelDataset"),
    elsewhere("OptionsDataset", STAGES, '"OptionsDataset"'),
    elsewhere("MaxIntraOpParallelismDataset", "tests/data/test_dataset.py", "max_intra_op_parallelism"),
    elsewhere("PrivateThreadPoolDataset", "tests/data/test_dataset.py", "private_threadpool_size"),
    elsewhere("Iterator", STAGES, '"Iterator"'),
    elsewhere("IteratorV2", ITERATORS, "make_initializable_iterator("),
    elsewhere("OneShotIterator", ITERATORS, "make_one_shot_iterator("),
    elsewhere("MakeIterator", ITERATORS, "make_initializer("),
    elsewhere("IteratorGetNext", ITERATORS, "get_next("),
    elsewhere("IteratorGetNextSync", STAGES, '"IteratorGetNextSync"'),
    elsewhere("IteratorGetNextAsOptional", STAGES, '"IteratorGetNextAsOptional"'),
    elsewhere("IteratorToStringHandle", ITERATORS, "string_handle("),
    elsewhere("IteratorFromStringHandle", STAGES, '"IteratorFromStringHandle"'),
    elsewhere("IteratorFromStringHandleV2", ITERATORS, "from_string_handle("),
    elsewhere("DatasetToSingleElement", ITERATORS, "get_single_element("),
    elsewhere("ReduceDataset", ITERATORS, ".reduce("),
]
