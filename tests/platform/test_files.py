"""Files under both sets of names, with TensorFlow's exceptions."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as tf


def test_write_and_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    with tf.gfile.GFile(path, "w") as file:
        file.write("één\n")
        file.write(b"two\n")
        assert file.size() == 10
    with tf.gfile.Open(path) as file:
        assert file.readline() == "één\n"
        assert file.tell() == 6
        assert file.readlines() == ["two\n"]
        file.seek(0)
        assert list(file) == ["één\n", "two\n"]
        file.seek(-4, 2)
        assert file.read(3) == "two"
    with tf.gfile.FastGFile(path, "rb") as file:
        assert file.read() == "één\ntwo\n".encode()
        file.seek(position=0)
        assert file.read(1) == b"\xc3"
    with tf.io.gfile.GFile(path, "a") as file:
        file.write("3")
    assert Path(path).read_text().endswith("two\n3")
    assert tf.gfile.Stat(path).length == 11


def test_an_empty_file_is_made(tmp_path: Path) -> None:
    with tf.gfile.GFile(str(tmp_path / "empty"), "w"):
        pass
    assert tf.gfile.Exists(tmp_path / "empty")


def test_bytes_and_text_are_written_in_any_mode(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    for mode in ("w", "wb", "w+"):
        with tf.gfile.GFile(path, mode) as file:
            file.write(b"\x89PNG")
            file.write("\u00fc\n")
            assert file.size() == 7
        with tf.gfile.GFile(path, "rb") as file:
            assert file.read() == b"\x89PNG\xc3\xbc\n"
    with tf.gfile.GFile(path, "w") as file, pytest.raises(TypeError, match="int"):
        file.write(3)


def test_folders(tmp_path: Path) -> None:
    tf.gfile.MakeDirs(str(tmp_path / "a/b"))
    tf.gfile.MakeDirs(str(tmp_path / "a/b"))
    (tmp_path / "a/x.txt").write_text("x")
    (tmp_path / "a/.hidden.txt").write_text("h")
    assert tf.gfile.IsDirectory(str(tmp_path / "a"))
    assert tf.gfile.ListDirectory(str(tmp_path / "a")) == [".hidden.txt", "b", "x.txt"]
    assert tf.gfile.Glob(str(tmp_path / "a/*.txt")) == [str(tmp_path / "a/.hidden.txt"), str(tmp_path / "a/x.txt")]
    assert tf.io.gfile.glob([str(tmp_path / "a/x*"), str(tmp_path / "a/b*")]) == [
        str(tmp_path / "a/x.txt"),
        str(tmp_path / "a/b"),
    ]
    walked = [(Path(folder).name, folders, files) for folder, folders, files in tf.gfile.Walk(str(tmp_path / "a"))]
    assert walked == [("a", ["b"], [".hidden.txt", "x.txt"]), ("b", [], [])]
    assert next(iter(tf.io.gfile.walk(str(tmp_path / "a"), topdown=False)))[0].endswith("b")
    tf.gfile.DeleteRecursively(str(tmp_path / "a"))
    assert not tf.gfile.Exists(str(tmp_path / "a"))


def test_copy_and_rename(tmp_path: Path) -> None:
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    Path(one).write_text("1")
    tf.gfile.Copy(one, two)
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        tf.io.gfile.copy(one, two)
    tf.gfile.Copy(one, two, overwrite=True)
    tf.gfile.Rename(two, three)
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        tf.gfile.Rename(one, three)
    tf.io.gfile.rename(one, three, overwrite=True)
    assert not tf.io.gfile.exists(one)
    assert not tf.io.gfile.exists(two)
    tf.gfile.Remove("file://" + three)
    assert not tf.gfile.Exists(three)


def test_errors(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(tf.errors.NotFoundError, match="missing; No such file"):
        tf.gfile.GFile(missing).read()
    with pytest.raises(tf.errors.NotFoundError, match="No such file"):
        tf.gfile.Remove(missing)
    with pytest.raises(tf.errors.NotFoundError, match="Could not find directory"):
        tf.gfile.ListDirectory(missing)
    with pytest.raises(tf.errors.AlreadyExistsError, match="File exists"):
        tf.gfile.MkDir(str(tmp_path))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
        tf.gfile.GFile(str(tmp_path)).read()
    with pytest.raises(tf.errors.PermissionDeniedError, match="a mode in which one may read"):
        tf.gfile.GFile(missing, "w").read()
    with pytest.raises(tf.errors.PermissionDeniedError, match="a mode in which one may write"):
        tf.gfile.GFile(missing).write("x")
    with pytest.raises(tf.errors.InvalidArgumentError, match="mode 'x'"):
        tf.gfile.GFile(missing, "x")
    seen: list[Exception] = []
    assert list(tf.io.gfile.walk(missing, onerror=seen.append)) == []
    assert isinstance(seen[0], tf.errors.NotFoundError)


@pytest.mark.parametrize("call", [tf.gfile.Exists, tf.gfile.Glob, tf.gfile.GFile, tf.io.gfile.makedirs])
def test_other_file_systems_are_refused(call: object) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match=r"Instead: fsspec\.filesystem\('gs'\)"):
        call("gs://bucket/file")  # type: ignore[operator]


def test_reading_and_writing_are_two(tmp_path: Path) -> None:
    path = str(tmp_path / "both")
    for mode in ("r+", "w+"):
        with tf.gfile.GFile(path, mode) as file:
            file.write("one\ntwo\n\nfour")
            file.flush()
            assert file.read(4) == "one\n"
            assert (file.tell(), file.size()) == (4, 13)
        assert file.readline() == "one\n"
        file.seek(4, 1)
        assert file.readline() == "\n"
        file.seek(-4, 2)
        assert list(file) == ["four"]
        file.close()
    with tf.gfile.GFile(path) as file:
        with pytest.raises(tf.errors.InvalidArgumentError, match="offset -1, whence 0"):
            file.seek(-1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="whence 3"):
            file.seek(0, 3)
        with pytest.raises(TypeError, match="missing or given twice"):
            file.seek(0, position=0)
    with tf.gfile.GFile(path, "a+") as file:
        file.write("5")
        file.flush()
        assert file.read() == "one\ntwo\n\nfour5"
