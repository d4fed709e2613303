"""`slim.dataset`, `DatasetDataProvider`, `parallel_reader`: data sets read by threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

slim = tf.contrib.slim


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    """Three files of four examples."""
    for f in range(3):
        with tf.python_io.TFRecordWriter(str(tmp_path / f"{f}.tfrecord")) as writer:
            for i in range(4):
                example = tf.train.Example()
                example.features.feature["n"].int64_list.value.append(10 * f + i)
                example.features.feature["word"].bytes_list.value.append(b"%d" % i)
                writer.write(example.SerializeToString())
    return str(tmp_path / "*.tfrecord")


ALL = [10 * f + i for f in range(3) for i in range(4)]


def steps(fetches: Any) -> list[Any]:
    results = []
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while True:
                results.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    return results


def dataset(pattern: str) -> Any:
    features = {"n": tf.FixedLenFeature([], tf.int64), "word": tf.FixedLenFeature([], tf.string)}
    items = {"number": slim.tfexample_decoder.Tensor("n"), "text": slim.tfexample_decoder.Tensor("word")}
    decoder = slim.tfexample_decoder.TFExampleDecoder(features, items)
    return slim.dataset.Dataset(
        pattern, tf.TFRecordReader, decoder, 12, {"number": "a number", "text": "its last digit"}
    )


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("readers", [1, 3])
def test_a_provider_gives_each_sample_once_an_epoch(pattern: str, shuffle: bool, readers: int) -> None:
    provider = slim.dataset_data_provider.DatasetDataProvider(
        dataset(pattern), num_readers=readers, shuffle=shuffle, num_epochs=2, common_queue_min=2
    )
    assert (sorted(provider.list_items()), provider.num_samples()) == (["number", "record_key", "text"], 12)
    given = steps(provider.get(["number", "text", "record_key"]))
    assert sorted(number for number, _, _ in given) == sorted(ALL * 2)
    assert all(text == b"%d" % (number % 10) for number, text, _ in given)
    assert all(f"{number // 10}.tfrecord:" in key.decode() for number, _, key in given)
    if not shuffle and readers == 1:
        assert [int(number) for number, _, _ in given] == ALL * 2


def test_one_pass_over_files_in_order(pattern: str) -> None:
    _, record = slim.parallel_reader.single_pass_read(pattern, tf.TFRecordReader)
    n = tf.parse_single_example(record, {"n": tf.FixedLenFeature([], tf.int64)})["n"]
    assert steps(n) == ALL


def test_readers_count_together(pattern: str) -> None:
    queue = tf.FIFOQueue(100, [tf.string, tf.string], shapes=[[], []])
    reader = slim.parallel_reader.ParallelReader(tf.TFRecordReader, queue, num_readers=2)
    names = tf.train.string_input_producer(slim.parallel_reader.get_data_files(pattern), num_epochs=1)
    keys, _ = reader.read_up_to(names, 5)
    counts = [reader.num_records_produced(), reader.num_work_units_completed()]
    assert reader.num_readers == 2
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for thread in tf.train.start_queue_runners(session):
            thread.join()
        assert session.run(counts) == [12, 3]
        assert [len(session.run(keys)) for _ in range(3)] == [5, 5, 2]


def test_what_does_not_fit_is_refused(pattern: str) -> None:
    with pytest.raises(TypeError, match=r"common_queue.dtypes must be \[tf.string, tf.string\]"):
        slim.parallel_reader.ParallelReader(tf.TFRecordReader, tf.FIFOQueue(1, tf.string))
    with pytest.raises(ValueError, match="cannot also be used for a dataset item: text"):
        slim.dataset_data_provider.DatasetDataProvider(dataset(pattern), record_key="text")
    provider = slim.dataset_data_provider.DatasetDataProvider(dataset(pattern))
    with pytest.raises(ValueError, match=r"Item \[image\] is invalid"):
        provider.get(["image"])
    with pytest.raises(ValueError, match="items must be a list or tuple"):
        provider.get("text")


# ------------------------------------------------------------------------------------------------------------- handlers
def decoded(handler: Any, features: dict[str, Any], **values: Any) -> Any:
    """What a handler makes of an example with these values."""
    example = tf.train.Example()
    for key, value in values.items():
        feature = example.features.feature[key]
        array = np.asarray(value)
        if array.dtype.kind in "SO":
            feature.bytes_list.value.extend(array.ravel().tolist())
        elif array.dtype.kind == "f":
            feature.float_list.value.extend(array.ravel().tolist())
        else:
            feature.int64_list.value.extend(array.ravel().tolist())
    decoder = slim.tfexample_decoder.TFExampleDecoder(features, {"item": handler})
    (item,) = decoder.decode(example.SerializeToString(), ["item"])
    with tf.Session() as session:
        return session.run(item)


SPARSE = {"indices": tf.VarLenFeature(tf.int64), "values": tf.VarLenFeature(tf.float32)}


def test_a_sparse_item() -> None:
    handler = slim.tfexample_decoder.SparseTensor
    given = {"indices": [1, 2, 5], "values": [0.5, 1.5, 2.5]}
    item = decoded(handler(), SPARSE, **given)
    assert item.indices.tolist() == [[1], [2], [5]]
    assert item.values.tolist() == [0.5, 1.5, 2.5]
    assert item.dense_shape.tolist() == [3]  # that of the ids, as in TensorFlow
    assert decoded(handler(shape=[6]), SPARSE, **given).dense_shape.tolist() == [6]
    dense = decoded(handler(shape=[6], densify=True, default_value=-1.0), SPARSE, **given)
    assert dense.tolist() == [-1, 0.5, 1.5, -1, -1, 2.5]
    with_shape = {**SPARSE, "shape": tf.VarLenFeature(tf.int64)}
    assert decoded(handler(shape_key="shape"), with_shape, shape=[7], **given).dense_shape.tolist() == [7]
    renamed = {"ids": SPARSE["indices"], "v": SPARSE["values"]}
    assert decoded(handler("ids", "v", shape=[6]), renamed, ids=[3], v=[1.0]).indices.tolist() == [[3]]


@pytest.mark.parametrize("dtype", [tf.uint8, tf.uint16, tf.int32, tf.float32])
def test_images_keep_their_bytes_in_each_dtype(dtype: tf.DType) -> None:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10
    with tf.Session() as session:
        png = session.run(tf.image.encode_png(pixels))
    features = {
        "image/encoded": tf.FixedLenFeature([], tf.string),
        "image/format": tf.FixedLenFeature([], tf.string, "png"),
    }
    image = decoded(slim.tfexample_decoder.Image(dtype=dtype), features, **{"image/encoded": [png]})
    assert image.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(image, pixels)
    shaped = decoded(slim.tfexample_decoder.Image(shape=[18], dtype=dtype), features, **{"image/encoded": [png]})
    np.testing.assert_array_equal(shaped, pixels.ravel())
