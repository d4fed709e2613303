"""What saves leave behind, what they may remove, and what a state file must not make them do."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import subprocess
import sys
import time

import pytest

import anabranch as tf
from anabranch.train import graph_files
from anabranch.train.saving import checkpoint_state


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def session():
    tf.Variable(1.0, name="v")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session


def files(folder):
    return sorted(os.listdir(folder))


def victim_of(session, tmp_path):
    """A checkpoint of somebody else, and a folder whose state file names it."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "mine").mkdir()
    tf.train.Saver().save(session, str(tmp_path / "victim/x"), write_state=False)
    (tmp_path / "mine/checkpoint").write_text(
        'model_checkpoint_path: "../victim/x"\nall_model_checkpoint_paths: "../victim/x"\n'
    )
    return files(tmp_path / "victim")


def test_a_saver_removes_nothing_that_a_state_file_names_elsewhere(session, tmp_path):
    before = victim_of(session, tmp_path)
    state = tf.train.get_checkpoint_state(str(tmp_path / "mine"))
    assert tf.train.latest_checkpoint(str(tmp_path / "mine"))  # read it is, when asked for
    saver = tf.train.Saver(max_to_keep=1)
    saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
    for step in range(3):
        saver.save(session, str(tmp_path / "mine/m"), step)
    assert files(tmp_path / "victim") == before
    assert [name for name in files(tmp_path / "mine") if "index" in name] == ["m-2.index"]


def test_a_manager_removes_nothing_that_a_state_file_names_elsewhere(session, tmp_path):
    before = victim_of(session, tmp_path)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path / "mine"), max_to_keep=1)
    with session.as_default():
        for _ in range(2):
            manager.save()
    assert files(tmp_path / "victim") == before
    assert len([name for name in files(tmp_path / "mine") if name.endswith(".index")]) == 1


def test_a_saver_removes_its_own_checkpoints_wherever_they_are(session, tmp_path):
    saver = tf.train.Saver(max_to_keep=1)
    for name in ("a", "b"):
        saver.save(session, str(tmp_path / name / "m"))
    assert "m.index" not in files(tmp_path / "a")
    assert "m.index" in files(tmp_path / "b")


def test_a_manager_writes_its_state_once(session, tmp_path, monkeypatch):
    """Killed between two writes, it would have forgotten its older checkpoints."""
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), max_to_keep=5)
    written = []
    write = checkpoint_state.write_state
    monkeypatch.setattr(checkpoint_state, "write_state", lambda *args, **kwargs: written.append(write(*args, **kwargs)))
    with session.as_default():
        for _ in range(3):
            manager.save()
    assert len(written) == 3
    assert len(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths) == 3


@pytest.mark.parametrize("times", [[], [5.0], [5.0, 6.0, 7.0]])
def test_a_state_file_with_another_number_of_times(session, tmp_path, times):
    paths = "".join(f'all_model_checkpoint_paths: "m-{i}"\n' for i in range(2))
    stamps = "".join(f"all_model_checkpoint_timestamps: {time}\n" for time in times)
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "m-1"\n{paths}{stamps}')
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), max_to_keep=5)
    assert [os.path.basename(path) for path in manager.checkpoints] == ["m-0", "m-1"]


def test_a_save_sweeps_what_dead_processes_left(session, tmp_path):
    host = __import__("anabranch.formats.staging", fromlist=["_host"])._host()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [f"m-7.index.tempstate-{host}-{dead.pid}-0", f"m-7.meta.tempstate-{host}-{dead.pid}-1"]
    alive = f"m-8.index.tempstate-{host}-{os.getppid()}-0"
    other = f"n-7.index.tempstate-{host}-{dead.pid}-0"
    for name in (*left, alive, other):
        (tmp_path / name).write_bytes(b"")
    old, new = tmp_path / "m-5_temp", tmp_path / "m-6_temp"
    for folder in (old, new):
        folder.mkdir()
        (folder / "part-00000-of-00002.index").write_bytes(b"")
    kept = tmp_path / "m-4_temp"
    kept.mkdir()
    (kept / "notes.txt").write_text("a user's")
    hours_ago = time.time() - 3 * 3600
    for path in (old / "part-00000-of-00002.index", old, kept / "notes.txt", kept):
        os.utime(path, (hours_ago, hours_ago))
    tf.train.Saver().save(session, str(tmp_path / "m"), 9)
    there = files(tmp_path)
    assert not set(left) & set(there)
    assert {alive, other, "m-6_temp", "m-4_temp"} <= set(there)
    assert "m-5_temp" not in there


def test_a_failed_sharded_save_leaves_no_folder(session, tmp_path):
    saver = tf.train.Saver(sharded=True)
    (tmp_path / "m.index").mkdir()  # nothing can be renamed to that
    (tmp_path / "m.index/x").write_text("")
    with pytest.raises(tf.errors.OpError, match=r"m\.index"):
        saver.save(session, str(tmp_path / "m"))
    assert not [name for name in files(tmp_path) if name.endswith("_temp")]


def test_a_file_written_whole_has_the_usual_mode_and_no_hidden_twin(tmp_path):
    old = os.umask(0o027)
    try:
        graph_files.write_atomically(str(tmp_path / "f"), b"x")
    finally:
        os.umask(old)
    assert files(tmp_path) == ["f"]
    assert os.stat(tmp_path / "f").st_mode & 0o777 == 0o640


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files by /proc")
def test_too_many_open_files_are_not_a_folder_without_checkpoints(session, tmp_path):
    tf.train.Saver().save(session, str(tmp_path / "m"))
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 20, limits[1]))
    try:
        with contextlib.suppress(OSError):
            for _ in range(1000):
                held.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(tf.errors.ResourceExhaustedError, match="Too many open files"):
            tf.train.latest_checkpoint(str(tmp_path))
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert tf.train.latest_checkpoint(str(tmp_path)) is not None


def test_saves_leave_nothing_in_memory_for_each_step(tmp_path):
    # `glob` keeps a pattern for each name that it is asked for.
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", [], tf.float32, tf.zeros_initializer())
        saver = tf.train.Saver(max_to_keep=2)
        session.run(variable.initializer)
        saver.save(session, f"{tmp_path}/model", global_step=1)
        before = fnmatch._compile_pattern.cache_info().currsize
        for step in range(2, 5):
            saver.save(session, f"{tmp_path}/model", global_step=step)
    assert fnmatch._compile_pattern.cache_info().currsize == before
