"""What `fuzz_readers.py` reads: every reader of files and of messages, with samples that it reads well."""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz_readers import ROOT, Target
from google.protobuf import text_format

import anabranch as tf
from anabranch.core.protos import saved_model_pb2
from anabranch.formats import bundle, bundle_reader, checkpoints, records, sstable
from anabranch.platform import logging
from anabranch.session import SessionOptions
from anabranch.train.saving import object_checkpoint

GOLDEN = os.path.join(ROOT, "tests", "golden")


class _AnyChecksum(int):
    """A checksum that equals each other one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _without_checksums() -> None:
    def any_checksum(*_: Any) -> _AnyChecksum:
        return _AnyChecksum(0)

    sstable.masked_crc = records.masked_crc = any_checksum  # type: ignore[assignment]
    bundle.mask = any_checksum  # type: ignore[assignment]
    assert bundle_reader.bundle is bundle


def _file(*names: str) -> bytes:
    with open(os.path.join(GOLDEN, *names), "rb") as stream:
        return stream.read()


def _packed(*parts: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(part)) + part for part in parts[:-1]) + parts[-1]


def _unpacked(data: bytes, count: int) -> list[bytes]:
    parts = []
    for _ in range(count - 1):
        size = int.from_bytes(data[:4], "little")
        parts.append(data[4 : 4 + size])
        data = data[4 + size :]
    return [*parts, data]


def _write(path: str, data: bytes) -> str:
    with open(path, "wb") as stream:
        stream.write(data)
    return path


# -------------------------------------------------------------------------------------------------------------- readers
def _table(data: bytes) -> None:
    table = sstable.Table(lambda offset, size: data[offset : offset + size], len(data), "table")
    for key, _ in list(table.items())[:20]:
        table.find(key)


def _read_all(prefix: str) -> None:
    with checkpoints.open_checkpoint(prefix) as reader:
        for name in list(reader.tensors)[:50]:
            for part in (None, tuple((0, 1) for _ in reader.facts(name).shape)):
                with contextlib.suppress(tf.errors.OpError):
                    reader.read(name, part)
    tf.train.NewCheckpointReader(prefix).debug_string()


def _checkpoint(folder: str, shards: int) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        prefix = os.path.join(folder, "model")
        index, *rest = _unpacked(data, shards + 1)
        _write(bundle.index_name(prefix), index)
        for shard, part in enumerate(rest):
            _write(bundle.data_name(prefix, shard, shards), part)
        _read_all(prefix)
        object_checkpoint.read_object_graph(prefix)

    return read


def _records(folder: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        kind = ("", "ZLIB", "GZIP")[data[0] % 3] if data else ""
        path = _write(os.path.join(folder, "records"), data[1:])
        for _ in tf.python_io.tf_record_iterator(path, tf.python_io.TFRecordOptions(kind)):
            pass

    return read


def _events(folder: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for _ in tf.train.summary_iterator(_write(os.path.join(folder, "events"), data)):
            pass

    return read


def _stepping(make: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """Runs a graph of one string."""
    graph = tf.Graph()
    with graph.as_default():
        given = tf.placeholder(tf.string, [])
        fetches = make(given)
    # Compiling a program would need more memory than the limit leaves.
    session = tf.Session(graph=graph, config=SessionOptions(tier="interpreted"))
    return lambda data: session.run(fetches, {given: data})


def _parsing(given: Any) -> Any:
    return [
        tf.parse_single_example(
            given,
            {
                "f": tf.FixedLenFeature([2], tf.float32, [0.0, 1.0]),
                "i": tf.VarLenFeature(tf.int64),
                "s": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True),
                "sparse": tf.SparseFeature("index", "value", tf.float32, 10),
            },
        ),
        tf.parse_example([given, given], {"f": tf.VarLenFeature(tf.float32), "s": tf.VarLenFeature(tf.string)}),
    ]


def _sequences(given: Any) -> Any:
    return tf.parse_single_sequence_example(
        given,
        {"f": tf.FixedLenFeature([2], tf.float32, [0.0, 1.0])},
        {"i": tf.VarLenFeature(tf.int64), "s": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True)},
    )


def _saved_model(folder: str, sample: str, suffix: str) -> Callable[[bytes], None]:
    import shutil

    place = os.path.join(folder, f"model{suffix}")
    shutil.copytree(os.path.join(GOLDEN, "saved_models", sample), place)
    os.remove(os.path.join(place, "saved_model.pb"))

    def read(data: bytes) -> None:
        _write(os.path.join(place, f"saved_model.{suffix}"), data)
        with tf.saved_model.load(place, ["serve"]):
            pass

    return read


def _graph(data: bytes) -> None:
    proto = tf.GraphDef()
    try:
        proto.ParseFromString(data)
    except Exception:  # of the parser
        return
    with tf.Graph().as_default():
        tf.import_graph_def(proto, name="")


def _graph_file(folder: str) -> Callable[[bytes], None]:
    from anabranch.train.graph_files import read_message

    def read(data: bytes) -> None:
        proto = read_message(_write(os.path.join(folder, "graph.pbtxt"), data), tf.GraphDef, "GraphDef")
        with tf.Graph().as_default():
            tf.import_graph_def(proto, name="")

    return read


def _meta_graph(folder: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path = _write(os.path.join(folder, "model.meta"), data)
        with tf.Graph().as_default():
            tf.train.import_meta_graph(path)

    return read


def _state(folder: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        _write(os.path.join(folder, "checkpoint"), data)
        tf.train.get_checkpoint_state(folder)
        tf.train.latest_checkpoint(folder)

    return read


def _vocabulary(folder: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path = _write(os.path.join(folder, "vocabulary.txt"), data)
        with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier="interpreted")) as session:
            table = tf.contrib.lookup.index_table_from_file(path)
            session.run(tf.tables_initializer())
            session.run(table.lookup(tf.constant(["a"])))

    return read


# -------------------------------------------------------------------------------------------------------------- samples
def _framed(*parts: bytes) -> bytes:
    return b"".join(records.framed(part) for part in parts)


def _example() -> Any:
    found = tf.train.Example()
    feature = found.features.feature
    feature["f"].float_list.value.extend([1.5, 2.0])
    feature["i"].int64_list.value.extend([1, 300, -1])
    feature["s"].bytes_list.value.extend([b"a", b""])
    feature["index"].int64_list.value.extend([1, 3])
    feature["value"].float_list.value.extend([1.0, 3.0])
    return found


def _sequence() -> Any:
    found = tf.train.SequenceExample()
    found.context.feature["f"].float_list.value.extend([1.5, 2.0])
    for values in ([1, 2], [], [3]):
        found.feature_lists.feature_list["i"].feature.add().int64_list.value.extend(values)
        found.feature_lists.feature_list["s"].feature.add().bytes_list.value.append(b"x")
    return found


def _meta() -> bytes:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [2, 3], partitioner=tf.fixed_size_partitioner(2))
        v = tf.get_variable("v", [3], use_resource=True)
        step = tf.train.get_or_create_global_step()
        y = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), [0, tf.reduce_sum(tf.matmul(w, v[:, None]))])
        z = tf.cond(y[1] > 0, lambda: y[1], lambda: -y[1])
        tf.train.AdamOptimizer().minimize(z, global_step=step)
        tf.train.Saver()
        return tf.train.export_meta_graph().SerializeToString()


def _images() -> list[bytes]:
    image = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    with tf.Graph().as_default(), tf.Session() as session:
        return [bytes(session.run(encode(image))) for encode in (tf.image.encode_png, tf.image.encode_jpeg)]


def _event_file(folder: str) -> bytes:
    place = os.path.join(folder, "logs")
    with tf.summary.FileWriter(place) as writer:
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=0.5)]), 7)
    with open(glob.glob(os.path.join(place, "*"))[0], "rb") as stream:
        return stream.read()


def targets(folder: str) -> dict[str, Target]:
    """All targets by name; their readers write into ``folder``."""
    logging.set_verbosity(logging.FATAL)
    _images_ = _images()
    meta, events = _meta(), _event_file(folder)
    _without_checksums()
    one = ("v2.index", "v2.data-00000-of-00001"), ("v2_grid.index", "v2_grid.data-00000-of-00001")
    objects = ("objects-1.index", "objects-1.data-00000-of-00001")
    three = ["v2_sharded.index", *(f"v2_sharded.data-0000{i}-of-00003" for i in range(3))]

    def packed(names: Any) -> bytes:
        return _packed(*(_file("checkpoints", name) for name in names))

    models = {name: _file("saved_models", name, "saved_model.pb") for name in ("many", "words", "version_1", "steps")}
    graphs = [_file("graphs", os.path.basename(path)) for path in glob.glob(os.path.join(GOLDEN, "graphs", "*.pbtxt"))]
    flows = sorted(glob.glob(os.path.join(GOLDEN, "*control_flow", "*.pb")), key=os.path.getsize)[:12]
    binary = [text_format.Parse(text, tf.GraphDef()).SerializeToString() for text in graphs]
    for path in flows:
        with open(path, "rb") as stream:
            binary.append(stream.read())
    plain = _framed(b"abc", b"", b"x" * 50)
    text_model = text_format.MessageToString(saved_model_pb2.SavedModel.FromString(models["many"])).encode()
    state = b'model_checkpoint_path: "model-3"\nall_model_checkpoint_paths: "model-2"\nlast_preserved_timestamp: 1.5\n'
    found = {
        "table": Target(_table, [_file("checkpoints", name) for name in ("v2.index", "v2_grid.index", "v1")]),
        "snappy": Target(
            lambda data: sstable.unsnapped(data, "block"), [b"\x08\x1cabcdefgh", b"p\x08abc\x15\x03\x9e\x03\0"]
        ),
        "checkpoint": Target(_checkpoint(folder, 1), [packed(names) for names in (*one, objects)]),
        "checkpoint_sharded": Target(_checkpoint(folder, 3), [packed(three)]),
        "checkpoint_v1": Target(
            lambda data: _read_all(_write(os.path.join(folder, "v1"), data)), [_file("checkpoints", "v1")]
        ),
        "records": Target(
            _records(folder), [b"\0" + plain, b"\1" + zlib.compress(plain), b"\2" + gzip.compress(plain)]
        ),
        "events": Target(_events(folder), [events]),
        "example": Target(_stepping(_parsing), [_example().SerializeToString()], tf.train.Example),
        "sequence_example": Target(_stepping(_sequences), [_sequence().SerializeToString()], tf.train.SequenceExample),
        "json_example": Target(
            _stepping(tf.decode_json_example), [b'{"features": {"feature": {"i": {"int64List": {"value": [1]}}}}}']
        ),
        "parse_tensor": Target(
            _stepping(lambda x: tf.parse_tensor(x, tf.float32)),
            [
                tf.make_tensor_proto([[1.0, 2.0]]).SerializeToString(),
                tf.make_tensor_proto(np.ones(5, np.float32)).SerializeToString(),
            ],
            tf.TensorProto if hasattr(tf, "TensorProto") else None,
        ),
        "decode_csv": Target(_stepping(lambda x: tf.decode_csv(x, [[0], [1.5], ["x"]])), [b'1,2.5,"a ""b"""', b"3,,"]),
        "decode_raw": Target(_stepping(lambda x: tf.decode_raw(x, tf.int32)), [b"12345678"]),
        "images": Target(_stepping(lambda x: tf.image.decode_image(x)), _images_),
        "state_file": Target(_state(folder), [state]),
        "vocabulary": Target(_vocabulary(folder), [b"the\nquick\nfox\n"]),
        "graph": Target(_graph, binary, tf.GraphDef),
        "graph_text": Target(_graph_file(folder), graphs),
        "meta_graph": Target(_meta_graph(folder), [meta], saved_model_pb2.MetaGraphDef),
        "saved_model_text": Target(_saved_model(folder, "many", "pbtxt"), [text_model]),
    }
    for name, sample in models.items():
        found[f"saved_model_{name}"] = Target(
            _saved_model(os.path.join(folder, name), name, "pb"), [sample], saved_model_pb2.SavedModel
        )
    return found
