"""Savers: what is saved and restored, names of files, which checkpoints are kept, errors."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.rewrite import state
from tests.running_steps import until


@pytest.fixture(autouse=True)
def own_graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found


def names(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize(
    "options",
    [{}, {"sharded": True}, {"asynchronous": True}, {"asynchronous": True, "sharded": True}, {"write_version": 1}],
    ids=str,
)
@pytest.mark.parametrize("resource", [False, True])
def test_everything_comes_back(session, tmp_path, options, resource):
    rng = np.random.default_rng(0)
    values = {
        "f": rng.random((3, 4), np.float32),
        "i": np.array(7, np.int64),
        "b": np.array([True, False]),
        "c": np.array([1 + 2j], np.complex64),
        "e": np.zeros((0, 2), np.float64),
    }
    variables = {key: tf.Variable(value, name=key, use_resource=resource) for key, value in values.items()}
    text = tf.Variable(["a", "", "longer"], name="s", use_resource=resource)
    part = tf.get_variable("p", [5, 2], partitioner=tf.fixed_size_partitioner(2), use_resource=resource)
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    look = table.lookup(tf.constant(["x", "y"]))
    saver = tf.train.Saver(**options)
    session.run([tf.global_variables_initializer()])
    session.run(table.insert(tf.constant(["x"]), tf.constant([3], tf.int64)))
    everything = [*variables.values(), text, part.as_tensor(), look]
    before = session.run(everything)
    path = saver.save(session, str(tmp_path / "model"), global_step=variables["i"])
    saver.wait()
    assert path.startswith(str(tmp_path / "model-7"))
    with tf.Session() as other:
        saver.restore(other, path)
        for found, wanted in zip(other.run(everything), before, strict=True):
            assert found.dtype == wanted.dtype
            assert np.array_equal(found, wanted)


def test_files_and_state(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver(max_to_keep=2)
    session.run(v.initializer)
    for step in range(4):
        path = saver.save(session, str(tmp_path / "m"), global_step=step)
    assert path == str(tmp_path / "m-3")
    kept = [f"m-{step}.{end}" for step in (2, 3) for end in ("data-00000-of-00001", "index", "meta")]
    assert names(tmp_path) == sorted(["checkpoint", *kept])
    assert saver.last_checkpoints == [str(tmp_path / "m-2"), path]
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == saver.last_checkpoints
    assert saver.save(session, str(tmp_path / "n"), write_meta_graph=False, write_state=False) == str(tmp_path / "n")
    assert "n.meta" not in names(tmp_path)
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    saver.save(session, str(tmp_path / "o"), latest_filename="newest", meta_graph_suffix="graph")
    assert {"newest", "o.graph"} <= set(names(tmp_path))
    assert tf.train.latest_checkpoint(str(tmp_path), "newest") == str(tmp_path / "o")


def test_the_meta_graph_restores_in_another_program(session, tmp_path):
    v = tf.Variable([1.0, 2.0], name="v")
    tf.add_to_collection("twice", v * 2)
    saver = tf.train.Saver()
    session.run(v.initializer)
    path = saver.save(session, str(tmp_path / "m"), global_step=5)
    with tf.Graph().as_default(), tf.Session() as other:
        loaded = tf.train.import_meta_graph(path + ".meta")
        loaded.restore(other, path)
        assert other.run(tf.get_collection("twice")[0]).tolist() == [2.0, 4.0]
        again = loaded.save(other, str(tmp_path / "n"), global_step=6)
    saver.restore(session, again)


def test_ways_to_name_a_step(session, tmp_path):
    step = tf.Variable(12, name="step", dtype=tf.int64)
    saver = tf.train.Saver(pad_step_number=True)
    session.run(step.initializer)
    prefix = str(tmp_path / "m")
    for given in (12, np.int32(12), step, step + 0, "step:0"):
        assert saver.save(session, prefix, global_step=given, write_meta_graph=False) == prefix + "-00000012"
    with pytest.raises(TypeError, match="global_step="):
        saver.save(session, prefix, global_step=object())


def test_a_subset_and_other_names(session, tmp_path):
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    session.run(tf.global_variables_initializer())
    path = tf.train.Saver({"first": a, "second": b}).save(session, str(tmp_path / "m"))
    assert tf.train.list_variables(path) == [("first", []), ("second", [])]
    session.run([a.assign(0.0), b.assign(0.0)])
    tf.train.Saver({"second": a}).restore(session, path)
    assert session.run([a, b]) == [2.0, 0.0]


def test_parts_restore_into_other_parts(session, tmp_path):
    with tf.variable_scope("one", partitioner=tf.fixed_size_partitioner(3)):
        old = tf.get_variable("w", [7, 2])
    with tf.variable_scope("two", partitioner=tf.fixed_size_partitioner(2, axis=1)):
        new = tf.get_variable("w", [7, 2])
    with tf.variable_scope("three"):
        whole = tf.get_variable("w", [7, 2])
    session.run(tf.global_variables_initializer())
    path = tf.train.Saver({"w": old}).save(session, str(tmp_path / "m"))
    tf.train.Saver({"w": new}).restore(session, path)
    tf.train.Saver({"w": whole}).restore(session, path)
    wanted = session.run(old.as_tensor())
    assert np.array_equal(session.run(new.as_tensor()), wanted)
    assert np.array_equal(session.run(whole), wanted)
    path = tf.train.Saver({"w": whole}).save(session, str(tmp_path / "n"))
    session.run(new.assign(tf.zeros([7, 2])))
    tf.train.Saver({"w": new}).restore(session, path)
    assert np.array_equal(session.run(new.as_tensor()), wanted)


def test_reshape(session, tmp_path):
    a = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="a")
    b = tf.Variable(tf.zeros([4]), name="b")
    session.run(tf.global_variables_initializer())
    path = tf.train.Saver({"w": a}).save(session, str(tmp_path / "m"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="mismatch between the current graph and the graph"):
        tf.train.Saver({"w": b}).restore(session, path)
    tf.train.Saver({"w": b}, reshape=True).restore(session, path)
    assert session.run(b).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_restoring_is_all_or_nothing(session, tmp_path):
    a, b, c = (tf.Variable([float(i)], name=name) for i, name in enumerate("abc"))
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver()
    path = tf.train.Saver([a, b]).save(session, str(tmp_path / "m"))
    session.run([v.assign([9.0]) for v in (a, b, c)])
    with pytest.raises(tf.errors.NotFoundError, match="Key c not found in checkpoint"):
        saver.restore(session, path)
    assert session.run([a, b, c]) == [[9.0]] * 3
    saver.save(session, path)
    with open(path + ".data-00000-of-00002", "r+b") as stream:
        stream.seek(5)
        stream.write(b"\x77")
    with pytest.raises(tf.errors.DataLossError, match=r"m\.data-00000-of-00002: checksum of tensor 'b'"):
        saver.restore(session, path)
    assert session.run([a, b, c]) == [[9.0]] * 3


def test_uninitialised_variables_are_told(session, tmp_path):
    tf.Variable(1.0, name="v")
    for options in ({}, {"asynchronous": True}):
        with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value v"):
            tf.train.Saver(**options).save(session, str(tmp_path / "m"))
    assert [name for name in names(tmp_path) if not name.endswith(".meta")] == []


@pytest.mark.timeout(600)
def test_a_save_is_one_state_while_others_train(session, tmp_path):
    a = tf.Variable(tf.zeros([1000]), name="a")
    b = tf.Variable(tf.zeros([1000]), name="b", use_resource=True)
    with tf.device("/cpu:0"):
        c = tf.Variable(tf.zeros([1000]), name="c")
    step = tf.group(*[v.assign_add(tf.ones([1000])) for v in (a, b, c)])
    savers = [tf.train.Saver(), tf.train.Saver(sharded=True), tf.train.Saver(asynchronous=True)]
    session.run(tf.global_variables_initializer())
    done = threading.Event()
    failed, steps = [], []

    def train():
        try:
            while not done.is_set():
                session.run(step)
                steps.append(1)
                time.sleep(0.001)  # or the interpreter's lock is hardly ever free for who saves
        except Exception as problem:
            failed.append(problem)

    worker = threading.Thread(target=train)
    worker.start()
    seen = set()
    try:
        for i in range(12):
            before, saver = len(steps), savers[i % 3]
            until(lambda before=before: len(steps) > before or failed)
            path = saver.save(session, str(tmp_path / "m"), global_step=i, write_meta_graph=False)
            saver.wait()
            reader = tf.train.load_checkpoint(path)
            found = np.stack([reader.get_tensor(name) for name in "abc"])
            assert np.all(found == found[0, 0])
            seen.add(float(found[0, 0]))
    finally:
        done.set()
        worker.join()
    assert not failed
    assert len(seen) > 5


def test_keeping_some_for_good(session, tmp_path, monkeypatch):
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1.0)
    start = time.time()
    for minutes in range(0, 300, 20):
        monkeypatch.setattr(time, "time", lambda minutes=minutes: start + minutes * 60)
        saver.save(session, str(tmp_path / "m"), global_step=minutes, write_meta_graph=False)
    kept = sorted(int(name[2:-6]) for name in names(tmp_path) if name.endswith(".index"))
    assert kept == [60, 120, 180, 240, 280]


def test_all_are_kept_without_a_limit(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    saver = tf.train.Saver(max_to_keep=None)
    for step in range(8):
        saver.save(session, str(tmp_path / "m"), global_step=step, write_meta_graph=False)
    assert len([name for name in names(tmp_path) if name.endswith(".index")]) == 8
    assert saver.last_checkpoints == []


def test_going_on_with_the_checkpoints_of_an_earlier_process(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    first = tf.train.Saver(max_to_keep=3)
    paths = [first.save(session, str(tmp_path / "m"), global_step=i) for i in range(3)]
    second = tf.train.Saver(max_to_keep=3)
    second.recover_last_checkpoints([*paths, str(tmp_path / "gone")])
    assert second.last_checkpoints == paths
    second.save(session, str(tmp_path / "m"), global_step=3)
    assert not os.path.exists(paths[0] + ".index")
    assert not os.path.exists(paths[0] + ".meta")
    third = tf.train.Saver()
    third.set_last_checkpoints(paths[1:])
    assert third.last_checkpoints == paths[1:]
    with pytest.raises(TypeError, match="a list of paths"):
        third.set_last_checkpoints("x")
    with pytest.raises(TypeError, match=r"a list of \(path, seconds\)"):
        third.set_last_checkpoints_with_time("x")


def test_folders_that_move(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    tf.train.Saver(save_relative_paths=True).save(session, str(tmp_path / "one" / "m"), global_step=1)
    os.rename(tmp_path / "one", tmp_path / "two")
    assert tf.train.latest_checkpoint(str(tmp_path / "two")) == str(tmp_path / "two" / "m-1")


def test_folders_that_move_although_their_paths_are_absolute(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    saver = tf.train.Saver()
    for step in (1, 2):
        saver.save(session, str(tmp_path / "one" / "m"), global_step=step)
    assert str(tmp_path / "one" / "m-2") in (tmp_path / "one" / "checkpoint").read_text()
    os.rename(tmp_path / "one", tmp_path / "two")
    state_of = tf.train.get_checkpoint_state(str(tmp_path / "two"))
    assert list(state_of.all_model_checkpoint_paths) == [str(tmp_path / "two" / f"m-{step}") for step in (1, 2)]
    assert tf.train.latest_checkpoint(str(tmp_path / "two")) == str(tmp_path / "two" / "m-2")
    saver.restore(session, tf.train.latest_checkpoint(str(tmp_path / "two")))
    saver.save(session, str(tmp_path / "one" / "m"), global_step=2)  # what stands where the file says goes first
    assert tf.train.latest_checkpoint(str(tmp_path / "two")) == str(tmp_path / "one" / "m-2")


def test_paths_that_are_no_names(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    with pytest.raises(ValueError, match="for a checkpoint\nExpected: a folder and a name"):
        tf.train.Saver().save(session, "")
    assert not os.listdir(tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="File name too long"):
        tf.train.Saver().save(session, str(tmp_path / ("n" * 250)))
    assert not os.listdir(tmp_path)


def test_relative_paths(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    saver = tf.train.Saver()
    assert saver.save(session, "run/m") == "run/m"
    assert tf.train.latest_checkpoint("run") == "run/m"
    assert saver.save(session, "m", latest_filename="newest") == "m"
    assert tf.train.latest_checkpoint(".", "newest") == "./m"
    saver.restore(session, "./m")


def test_protos(tmp_path):
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver([v], name="outer/save")
    proto = saver.to_proto()
    assert proto == saver.as_saver_def()
    assert saver.to_proto("outer").filename_tensor_name == "save/Const:0"
    assert saver.to_proto("elsewhere") is None
    again = tf.train.Saver.from_proto(saver.to_proto("outer"), import_scope="outer")
    assert again.as_saver_def() == proto
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    assert len(tf.train.export_meta_graph().collection_def[tf.GraphKeys.SAVERS].bytes_list.value) == 1
    with pytest.raises(ValueError, match="saver_def must specify the save_tensor"):
        tf.train.Saver(saver_def=tf.train.SaverDef(filename_tensor_name="a:0", restore_op_name="b"))


def test_what_savers_refuse(session, tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    empty = tf.train.Saver(allow_empty=True)
    tf.constant(1)
    assert empty.save(session, str(tmp_path / "e")) is None
    empty.restore(session, "nowhere")
    later = tf.train.Saver(defer_build=True)
    v = tf.Variable(1.0, name="v")
    for call in (lambda: later.save(session, "m"), lambda: later.restore(session, "m")):
        with pytest.raises(RuntimeError, match=r"`build\(\)` should be called before"):
            call()
    later.build()
    session.run(v.initializer)
    with pytest.raises(ValueError, match="must not contain path components"):
        later.save(session, str(tmp_path / "m"), latest_filename="a/b")
    with pytest.raises(ValueError, match="'latest_filename' collides with 'save_path'"):
        later.save(session, str(tmp_path / "checkpoint"))
    with pytest.raises(TypeError, match="'sess' must be a Session"):
        later.save(None, str(tmp_path / "m"))
    with pytest.raises(ValueError, match="Can't load save_path when it is None"):
        later.restore(session, None)
    with pytest.raises(ValueError, match="The passed save_path is not a valid checkpoint"):
        later.restore(session, str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="At least two variables have the same name: v"):
        tf.train.Saver([v, tf.get_variable("q", [4, 1], partitioner=tf.fixed_size_partitioner(2)), v])
    with pytest.raises(NotImplementedError, match="an asynchronous save in the format V1"):
        tf.train.Saver(write_version=tf.train.SaverDef.V1, asynchronous=True).save(session, str(tmp_path / "m"))
    with pytest.raises(TypeError, match="an asynchronous save of a Other"):
        tf.train.Saver(asynchronous=True).save(
            type("Other", (), {"run": None, "graph": v.graph})(), str(tmp_path / "m")
        )
    assert names(tmp_path) == ["e.meta"]


def test_training_goes_on_from_a_restored_state(session, tmp_path):
    w = tf.Variable([1.0, 2.0], name="w")
    train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(w)))
    saver = tf.train.Saver()
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train)
    path = saver.save(session, str(tmp_path / "m"))
    for _ in range(3):
        session.run(train)
    wanted = session.run(tf.global_variables())
    for _ in range(2):  # what is restored may be given away to a program, and be restored again
        saver.restore(session, path)
        for _ in range(3):
            session.run(train)
        for found, value in zip(session.run(tf.global_variables()), wanted, strict=True):
            assert np.array_equal(found, value)


def test_an_asynchronous_save_holds_the_state_of_its_step(session, tmp_path, monkeypatch):
    from anabranch.formats import bundle

    v = tf.Variable(tf.zeros([100_000]), name="v")
    add = v.assign_add(tf.ones([100_000])).op
    saver = tf.train.Saver(asynchronous=True, max_to_keep=1)
    session.run(v.initializer)
    for _ in range(3):
        session.run(add)
    go = threading.Event()
    write = bundle.write_bundle

    def slow(prefix, *shards):
        assert go.wait(60)
        write(prefix, *shards)

    monkeypatch.setattr(bundle, "write_bundle", slow)
    path = saver.save(session, str(tmp_path / "m"), global_step=3)
    assert not tf.train.checkpoint_exists(path)
    for _ in range(5):
        session.run(add)
    assert session.run(v)[0] == 8.0
    go.set()
    saver.wait()
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert np.all(tf.train.load_variable(path, "v") == 3.0)
    saver.save(session, str(tmp_path / "m"), global_step=8)
    saver.restore(session, str(tmp_path / "m-8"))  # waits for it
    assert session.run(v)[0] == 8.0
    assert "m-3.index" not in names(tmp_path)


def test_what_goes_wrong_in_the_background_is_raised_later(session, tmp_path, monkeypatch):
    from anabranch.formats import bundle

    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver(asynchronous=True)
    session.run(v.initializer)

    def full(prefix, *shards):
        raise tf.errors.ResourceExhaustedError(None, None, "no space")

    monkeypatch.setattr(bundle, "write_bundle", full)
    saver.save(session, str(tmp_path / "m"))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="no space"):
        saver.wait()
    monkeypatch.undo()
    saver.save(session, str(tmp_path / "m"))
    saver.wait()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m")


def test_steps_write_into_spare_buffers_while_a_save_reads(tmp_path, monkeypatch):
    from anabranch.formats import bundle
    from anabranch.runtime.state import spare_buffers

    monkeypatch.setattr(spare_buffers, "LARGE", 1)
    calls = []
    keeping = spare_buffers._Keeping.__call__
    monkeypatch.setattr(spare_buffers._Keeping, "__call__", lambda self, *rest: calls.append(1) or keeping(self, *rest))
    write = bundle.write_bundle
    go = threading.Event()

    def slow(prefix, *shards):
        assert go.wait(60)
        write(prefix, *shards)

    monkeypatch.setattr(bundle, "write_bundle", slow)
    v = tf.get_variable("v", [1000], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [1000], initializer=tf.zeros_initializer(), use_resource=True)
    with tf.control_dependencies([tf.assert_less(v[0], 50.0)]):
        add = tf.group(v.assign_add(tf.ones([1000])), w.assign_add(tf.fill([1000], 2.0)))
    saver = tf.train.Saver(asynchronous=True)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.global_variables_initializer())
        flying = session.make_callable(add, asynchronous=True)
        plain = session.make_callable(add)
        count = 0
        for step, round_ in ((plain, 0), (plain, 1), (flying, 2), (flying, 3)):
            for _ in range(3):
                step()
            flying.wait()
            for thread in threading.enumerate():
                if thread.name == "anabranch-spares":
                    thread.join()
            go.clear()
            path = saver.save(session, str(tmp_path / "m"), global_step=round_, write_meta_graph=False)
            for _ in range(4):
                step()
            flying.wait()
            go.set()
            saver.wait()
            count += 3
            assert len(calls) == round_ + 1
            assert np.all(tf.train.load_variable(path, "v") == count)
            assert np.all(tf.train.load_variable(path, "w") == 2 * count)
            count += 4
            assert np.all(session.run([v, w]) == np.array([[count], [2 * count]]))
            assert sum(map(len, session._manager.spares._kept.values())) == 2
        session.run([v.assign(tf.fill([1000], 60.0)), w.assign(tf.zeros([1000]))])
        go.clear()
        path = saver.save(session, str(tmp_path / "m"), write_meta_graph=False)
        with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
            plain()
        go.set()
        saver.wait()
        assert np.all(session.run([v, w]) == np.array([[60.0], [0.0]]))
        assert np.all(tf.train.load_variable(path, "v") == 60.0)
    assert not session._manager.spares._kept


@pytest.mark.parametrize("asynchronous", [False, True])
def test_of_two_threads_that_save_the_last_to_come_is_the_latest(tmp_path, monkeypatch, asynchronous):
    from anabranch.train.saving import checkpoint_state

    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver(asynchronous=asynchronous)
    write_state = checkpoint_state.write_state
    first = threading.Event()

    def slow(*given):
        if not first.is_set():
            first.set()
            time.sleep(0.5)
        write_state(*given)

    monkeypatch.setattr(checkpoint_state, "write_state", slow)
    with tf.Session() as session:
        session.run(v.initializer)
        one = threading.Thread(target=saver.save, args=(session, str(tmp_path / "m"), 1))
        one.start()
        assert first.wait(60)
        saver.save(session, str(tmp_path / "m"), 2)
        one.join()
        saver.wait()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m-2")
    assert [os.path.basename(path) for path in saver.last_checkpoints] == ["m-1", "m-2"]


def test_the_graph_of_an_asynchronous_save(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver(asynchronous=True)
    session.run(v.initializer)
    for name in ("changing", "final"):
        path = saver.save(session, str(tmp_path / name))
        saver.wait()
        with tf.Graph().as_default():
            tf.train.import_meta_graph(path + ".meta")
            assert [found.op.name for found in tf.global_variables()] == ["v"]
        session.graph.finalize()


def test_many_variables_cost_what_they_are(session, tmp_path, monkeypatch):
    """Binding a save's plan looks at each op a few times, not once for each variable."""
    looked = 0
    seen = state.OpState.seen

    def counted(self):
        nonlocal looked
        looked += 1
        return seen(self)

    count = 150
    variables = [tf.get_variable(f"v{i}", [2], initializer=tf.zeros_initializer()) for i in range(count)]
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver(variables)
    monkeypatch.setattr(state.OpState, "seen", counted)
    path = saver.save(session, str(tmp_path / "model"))
    saver.restore(session, path)
    assert 0 < looked < 20 * count


def test_a_scalar_bool_and_a_path_that_ends_in_a_slash(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        on = tf.Variable(True)
        row = tf.Variable([True, False])
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        prefix = f"{tmp_path}/model/"
        assert saver.save(session, prefix) == prefix == tf.train.latest_checkpoint(prefix)
        assert sorted(os.listdir(prefix)) == [".data-00000-of-00001", ".index", ".meta", "checkpoint"]
        session.run([tf.assign(on, False), tf.assign(row, [False, False])])
        saver.restore(session, prefix)
        assert [value.tolist() for value in session.run([on, row])] == [True, [True, False]]
