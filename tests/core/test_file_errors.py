"""Failures of the file system as programs see them: one table, whoever touches the files."""

from __future__ import annotations

import errno
import os
import textwrap

import pytest
import warm_python

import anabranch as tf
from anabranch.core.file_errors import error_of, translated


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, tf.errors.ResourceExhaustedError),
        (errno.EDQUOT, tf.errors.ResourceExhaustedError),
        (errno.EFBIG, tf.errors.ResourceExhaustedError),
        (errno.EMFILE, tf.errors.ResourceExhaustedError),
        (errno.EROFS, tf.errors.PermissionDeniedError),
        (errno.EACCES, tf.errors.PermissionDeniedError),
        (errno.EISDIR, tf.errors.FailedPreconditionError),
        (errno.ENOENT, tf.errors.NotFoundError),
        (errno.EEXIST, tf.errors.AlreadyExistsError),
        (errno.ENAMETOOLONG, tf.errors.InvalidArgumentError),
        (errno.ECHILD, tf.errors.UnknownError),
    ],
)
def test_table(number, kind):
    assert type(error_of(OSError(number, os.strerror(number)), "some/file")) is kind


def test_no_number_is_the_end_of_an_input():
    kinds = {type(error_of(OSError(number, "x"), "f")) for number in errno.errorcode}
    assert tf.errors.OutOfRangeError not in kinds


def test_other_value_errors_are_left_alone():
    with pytest.raises(ValueError, match="not a path"), translated("f"):
        raise ValueError("not a path")


LIMIT = """
import resource, signal, sys
sys.dont_write_bytecode = True  # Python would leave the first bytes of it
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
"""
"""For a program: files end at so many bytes (EFBIG), instead of a signal."""


def run_limited(program: str, folder) -> str:
    done = warm_python.run(LIMIT + textwrap.dedent(program), [str(folder)])
    assert done.returncode == 0, done.stderr
    return done.stdout


WRITERS = {
    "records": "w = tf.python_io.TFRecordWriter(p)\nfor i in range(100): w.write(big)\nw.close()",
    "gfile": "with tf.gfile.GFile(p, 'wb') as f:\n    for i in range(100): f.write(big)",
    "write_file": "tf.Session().run(tf.write_file(p, big * 100))",
    "graph": "tf.constant(big * 100)\ntf.train.write_graph(tf.get_default_graph(), folder, 'g', as_text=False)",
    "checkpoint": (
        "v = tf.Variable(tf.zeros([100_000]))\ns = tf.Session()\ns.run(v.initializer)\ntf.train.Saver().save(s, p)"
    ),
    "events": (
        "w = tf.summary.FileWriter(folder)\n"
        "for i in range(100): w.add_summary(tf.Summary(value=[tf.Summary.Value(tag=big.decode())]), i)\nw.flush()"
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_may_not_grow_is_not_the_end_of_an_input(name, tmp_path):
    """What a training loop would take for the end of its data, it must not."""
    body = textwrap.indent(WRITERS[name], "    ")
    told = run_limited(
        "import os, sys, warnings\nimport anabranch as tf\n"
        "folder = sys.argv[1]\np = os.path.join(folder, 'file')\nbig = b'x' * 1000\n"
        f"try:\n{body}\nexcept tf.errors.OpError as problem:\n    print(type(problem).__name__)\n"
        "    sys.stdout.flush()\n    os._exit(0)\n",
        tmp_path,
    )
    assert told.strip() == "ResourceExhaustedError"


def test_a_path_with_a_nul_byte_is_an_invalid_argument(tmp_path):
    path = f"{tmp_path}/a\0b"
    with tf.Graph().as_default(), tf.Session() as session:
        for read in (
            lambda: session.run(tf.read_file(path)),
            lambda: session.run(tf.write_file(path, "x")),
            lambda: tf.gfile.GFile(path).read(),
            lambda: tf.python_io.TFRecordWriter(path),
            lambda: list(tf.python_io.tf_record_iterator(path)),
            lambda: tf.summary.FileWriter(path),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"null (byte|character)"):
                read()


def test_a_folder_is_not_a_file(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
            session.run(tf.read_file(str(tmp_path)))
        with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
            session.run(tf.write_file(str(tmp_path), "x"))
