"""Datasets of parsed ``Example`` messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import iterators, structure
from anabranch.data.csv_files import shuffled_and_repeated
from anabranch.data.dataset import AUTOTUNE, Dataset, number
from anabranch.data.experimental import Transformation
from anabranch.data.files import TFRecordDataset
from anabranch.data.structure import SparseComponent, TensorComponent
from anabranch.ops.parsing.feature_specs import SparseFeature, raw_features
from anabranch.ops.parsing.public import EXAMPLE_KINDS, check_padding, collected


@public("data.experimental.parse_example_dataset", "contrib.data.parse_example_dataset")
def parse_example_dataset(features: Mapping[str, Any] | None, num_parallel_calls: Any = 1) -> Transformation:
    """Parse vectors of serialised ``Example`` messages: a dictionary from key to tensor or sparse tensor.

    Args:
        features: from key to ``FixedLenFeature``, ``VarLenFeature``, ``SparseFeature`` or ``FixedLenSequenceFeature``.
        num_parallel_calls: how many vectors may be parsed at a time; the order does not depend on it. For now they are
            parsed one after the other, whatever is given.

    Returns:
        What ``Dataset.apply`` takes.
    """
    if features is None:
        raise ValueError(
            "Missing: features was None.\n"
            + errors.message(
                "features=None", "a dictionary from key to feature", "{'x': tf.FixedLenFeature([], tf.int64)}"
            )
        )
    check_padding(features)
    raw = raw_features(features, EXAMPLE_KINDS)

    def apply(dataset: Dataset) -> Dataset:
        given = dataset._spec
        if not structure.is_compatible(given, TensorComponent(dtypes.string, TensorShape([None]))):
            raise TypeError(
                "Input dataset should be a dataset of vectors of strings\n"
                + errors.message(f"{dataset!r}", "batches of serialised examples", "dataset.batch(32)")
            )
        batch = given.shape
        spec: dict[str, Any] = {}
        for key, dtype, shape in zip(raw.dense_keys, raw.dense_types, raw.dense_shapes, strict=True):
            spec[key] = TensorComponent(dtype, batch.concatenate(TensorShape(shape)))
        for key, dtype in zip(raw.sparse_keys, raw.sparse_types, strict=True):
            spec[key] = SparseComponent(dtype, batch.concatenate(TensorShape([None])))
        parsed = dataset._stage(
            "ParseExampleDataset",
            number(num_parallel_calls, "num_parallel_calls"),
            raw.defaults(),
            spec=spec,
            sparse_keys=raw.sparse_keys,
            dense_keys=raw.dense_keys,
            sparse_types=raw.sparse_types,
            Tdense=raw.dense_types,
            dense_shapes=raw.dense_shapes,
        )
        if any(isinstance(feature, SparseFeature) for feature in features.values()):
            return parsed.map(
                lambda tensors: collected(
                    features,
                    raw,
                    [tensors[key] for key in raw.sparse_keys],
                    [tensors[key] for key in raw.dense_keys],
                )
            )
        return parsed

    return apply


@public("data.experimental.make_batched_features_dataset", "contrib.data.make_batched_features_dataset")
def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Mapping[str, Any],
    reader: Any = TFRecordDataset,
    label_key: str | None = None,
    reader_args: Any = None,
    num_epochs: Any = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: Any = None,
    parser_num_threads: Any = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Batches of the features of ``Example`` messages in files; with a label, pairs of features and label.

    Args:
        file_pattern: names of files, with wildcards; one or a list.
        batch_size: examples of a batch.
        features: from key to ``FixedLenFeature``, ``VarLenFeature``, ``SparseFeature`` or ``FixedLenSequenceFeature``.
        reader: makes a dataset of serialised examples (or of pairs of a key and one) of a file's name.
        label_key: the feature that is the label.
        reader_args: further arguments of ``reader``.
        num_epochs: how often the files are gone through; without end if None.
        shuffle: whether examples come in random order.
        shuffle_buffer_size: how many examples are held to draw from.
        shuffle_seed: with it the order is TensorFlow's own.
        prefetch_buffer_size: batches that may be made ahead.
        reader_num_threads: how many files give examples in turn; 1 if None.
        parser_num_threads: how many batches may be parsed at a time; the order does not depend on it.
        sloppy_ordering: taken; the order never varies.
        drop_final_batch: whether a last batch that has fewer examples is left out.
    """
    files = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    arguments = reader_args or []
    dataset = files.interleave(
        lambda filename: reader(filename, *arguments), 1 if reader_num_threads is None else reader_num_threads, 1
    )
    if dataset.output_types == (dtypes.string, dtypes.string):
        dataset = dataset.map(lambda _, value: value)
    dataset = shuffled_and_repeated(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    parallel = 2 if parser_num_threads is None else parser_num_threads
    dataset = dataset.apply(parse_example_dataset(features, num_parallel_calls=parallel))
    if label_key:
        if label_key not in features:
            raise ValueError(
                f"The `label_key` provided ({label_key!r}) must be one of the `features` keys.\n"
                + errors.message(
                    f"label_key={label_key!r}", f"one of {', '.join(sorted(features))}", "a key of features"
                )
            )
        label = label_key
        dataset = dataset.map(lambda tensors: (tensors, tensors.pop(label)))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


@public("contrib.data.read_batch_features")
def read_batch_features(
    file_pattern: Any,
    batch_size: Any,
    features: Mapping[str, Any],
    reader: Any = TFRecordDataset,
    reader_args: Any = None,
    randomize_input: bool = True,
    num_epochs: Any = None,
    capacity: Any = 10000,
) -> Any:
    """The next batch of features of ``Example`` messages in files: a dictionary from key to tensor or sparse tensor.

    Args:
        file_pattern, batch_size, features, reader, reader_args, num_epochs: as for ``make_batched_features_dataset``.
        randomize_input: whether examples come in random order.
        capacity: how many examples are held to draw from.
    """
    dataset = make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader=reader,
        reader_args=reader_args,
        shuffle=randomize_input,
        num_epochs=num_epochs,
        shuffle_buffer_size=capacity,
    )
    return iterators.one_shot(dataset).get_next()
