"""Checkpoints that Anabranch writes, TensorFlow reads; each runs in an interpreter of its own.

    python tools/checkpoints_in_tensorflow.py PYTHON_WITH_TENSORFLOW [FOLDER]

Anabranch writes checkpoints of every kind into FOLDER: tensors of every dtype in both formats, slices, shards, merged
ones, one that replaces another of the same name, an asynchronous one, one by object. TensorFlow reads and compares
each, restores with savers and checkpoints of its own, and prints a line for it. The exit status is 1 if anything
differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import checkpoints as recorder
import numpy as np

STEPS = 3


def model(tf: Any) -> tuple[list[Any], Any]:
    """Variables of several kinds, and a step that trains them."""
    w = tf.get_variable("w", [6, 4], initializer=tf.ones_initializer())
    b = tf.get_variable("b", [4], initializer=tf.zeros_initializer(), use_resource=True)
    part = tf.get_variable("part", [4, 3], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
    step = tf.train.get_or_create_global_step()
    y = tf.matmul(tf.matmul(tf.ones([2, 6]), w) + b, part)
    loss = tf.reduce_sum(tf.square(y - 1))
    train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    return [w, b, part.as_tensor(), step, loss], train


SAVERS = {
    "saver": {},
    "saver_sharded": {"sharded": True},
    "saver_v1": {"write_version": 1},
    "saver_v1_sharded": {"write_version": 1, "sharded": True},
    "saver_asynchronous": {"asynchronous": True},
}


def write(folder: str) -> None:
    """Writes the checkpoints."""
    import anabranch as tf
    from anabranch.core.values import dtypes
    from anabranch.formats import bundle, checkpoint_v1

    def pieces(values: dict[str, Any]) -> list[Any]:
        return [
            bundle.Piece(key, "", dtypes.string if value.dtype == object else dtypes.as_dtype(value.dtype), value)
            for key, value in values.items()
        ]

    everything = pieces(recorder.tensors())
    bundle.write_bundle(os.path.join(folder, "v2"), everything)
    bundle.write_bundle(os.path.join(folder, "shards"), everything[::2], everything[1::2])
    bundle.write_bundle(os.path.join(folder, "replaced"), everything[:3])
    bundle.write_bundle(os.path.join(folder, "replaced"), everything)
    for i in range(2):
        bundle.write_bundle(os.path.join(folder, "temp", f"part-{i}"), everything[i::2])
    bundle.merge_bundles([os.path.join(folder, "temp", f"part-{i}") for i in range(2)], os.path.join(folder, "merged"))
    checkpoint_v1.write_v1(os.path.join(folder, "v1"), pieces(recorder.tensors(recorder.OLD)))
    whole, layouts = recorder.parts()
    for name, write_kind in (("slices", bundle.write_bundle), ("slices_v1", checkpoint_v1.write_v1)):
        cuts = [
            bundle.Piece("whole", spec, dtypes.uint8, np.array(recorder.cut(whole, spec))) for spec in layouts["grid"]
        ]
        write_kind(os.path.join(folder, name), cuts)
    for name, options in SAVERS.items():
        with tf.Graph().as_default(), tf.Session() as session:
            shown, train = model(tf)
            saver = tf.train.Saver(**options)
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(train)
            path = saver.save(session, os.path.join(folder, name), global_step=STEPS, latest_filename=f"{name}.state")
            saver.wait()
            _note(folder, name, path, session.run(shown))
            for _ in range(STEPS):
                session.run(train)
            _note(folder, f"{name}.later", path, session.run(shown))
    with tf.Graph().as_default(), tf.Session() as session:
        checkpoint, train, shown = recorder.object_model(tf, "ours_")
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(os.path.join(folder, "objects"), session)
        _note(folder, "objects", path, session.run(shown))


def _note(folder: str, name: str, path: Any, values: list[Any]) -> None:
    np.savez(os.path.join(folder, f"{name}.npz"), *values, path=os.path.basename(path))


def _noted(folder: str, name: str) -> tuple[str, list[Any]]:
    with np.load(os.path.join(folder, f"{name}.npz")) as found:
        return os.path.join(folder, str(found["path"])), [found[f"arr_{i}"] for i in range(len(found.files) - 1)]


# ------------------------------------------------------------------------------------------------- read by TensorFlow
def read(folder: str) -> int:
    """Reads them with TensorFlow; the number of those that differ."""
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    tf.disable_resource_variables()
    failed = 0

    def report(name: str, check: Callable[[], None]) -> None:
        nonlocal failed
        try:
            check()
        except Exception as problem:
            failed += 1
            print(f"{name:22} DIFFERS: {type(problem).__name__}: {problem}")
        else:
            print(f"{name:22} ok")

    def same(found: Any, wanted: Any) -> None:
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
        assert np.array_equal(found, wanted), (found, wanted)

    def tensors(name: str, wanted: dict[str, Any]) -> None:
        reader = tf.train.NewCheckpointReader(os.path.join(folder, name))
        assert set(reader.get_variable_to_shape_map()) == set(wanted)
        for key, value in wanted.items():
            same(reader.get_tensor(key), value)

    def restored(name: str, wanted: dict[str, Any]) -> None:
        # The reader of TensorFlow takes neither slices nor every dtype of the old format; its op does.
        with tf.Graph().as_default(), tf.Session() as session:
            found = tf.raw_ops.RestoreV2(
                prefix=os.path.join(folder, name),
                tensor_names=list(wanted),
                shape_and_slices=[""] * len(wanted),
                dtypes=[tf.string if value.dtype == object else tf.as_dtype(value.dtype) for value in wanted.values()],
            )
            for value, expected in zip(session.run(found), wanted.values(), strict=True):
                same(value, expected)

    def saver(name: str) -> None:
        path, values = _noted(folder, name)
        options = {key: value for key, value in SAVERS[name].items() if key != "asynchronous"}
        state = tf.train.get_checkpoint_state(folder, f"{name}.state")
        assert state.model_checkpoint_path == path, (state.model_checkpoint_path, path)
        with tf.Graph().as_default(), tf.Session() as session:
            shown, train = model(tf)
            tf.train.Saver(**options).restore(session, path)
            for found, wanted in zip(session.run(shown[:-1]), values[:-1], strict=True):
                same(found, wanted)
            for _ in range(STEPS):
                session.run(train)
            for found, wanted in zip(session.run(shown), _noted(folder, f"{name}.later")[1], strict=True):
                assert np.allclose(found, wanted, rtol=1e-5), (found, wanted)
        with tf.Graph().as_default(), tf.Session() as session:
            graph = os.path.join(folder, f"{name}-{STEPS}.meta")
            tf.train.import_meta_graph(graph).restore(session, path)
            same(session.run("w:0"), values[0])

    def objects() -> None:
        path, values = _noted(folder, "objects")
        with tf.Graph().as_default(), tf.Session() as session:
            checkpoint, _, shown = recorder.object_model(tf, "theirs_")
            checkpoint.restore(path).assert_consumed().initialize_or_restore(session)
            for found, wanted in zip(session.run(shown), values, strict=True):
                same(found, wanted)

    for name in ("v2", "shards", "replaced", "merged"):
        report(name, lambda name=name: tensors(name, recorder.tensors()))
    report("v1", lambda: restored("v1", recorder.tensors(recorder.OLD)))
    report("slices", lambda: tensors("slices", {"whole": recorder.parts()[0]}))
    report("slices_v1", lambda: restored("slices_v1", {"whole": recorder.parts()[0]}))
    for name in SAVERS:
        report(name, lambda name=name: saver(name))
    report("objects", objects)
    return failed


def main(arguments: list[str]) -> int:
    """Writes here, reads with the interpreter that is given."""
    if arguments[:1] == ["--read"]:
        return int(read(arguments[1]) > 0)
    if not 1 <= len(arguments) <= 2:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments[1] if len(arguments) == 2 else scratch
        os.makedirs(folder, exist_ok=True)
        write(folder)
        return subprocess.run([arguments[0], os.path.abspath(__file__), "--read", folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
