"""Names by patterns: what matches, and what keeps from looking is raised, not taken for an empty folder."""

from __future__ import annotations

import errno
import glob
import os

import pytest

import anabranch as tf
from anabranch.core import paths


@pytest.fixture
def tree(tmp_path):
    for name in ("a1", "a2", ".a3", "b/a4", "b/c/a5", "[x]/a6", "b/.d/a7"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "broken").symlink_to("nowhere")
    return tmp_path


PATTERNS = [
    "*",
    "a?",
    "*/a*",
    "*/*/a?",
    "b/a4",
    "b/",
    "*/",
    "nowhere/*",
    "a1/*",
    "[[]x]/*",
    "?",
    "[!a]*",
    "broken",
    "b/../a*",
    "b//a*",
    "**/a5",
    "b/.*",
    ".*",
    "*/.d/*",
]


@pytest.mark.parametrize("pattern", [*PATTERNS, "", "/*", "/"])
def test_patterns_match_what_glob_matches(tree, pattern, monkeypatch):
    monkeypatch.chdir(tree)
    assert paths.matching_here(pattern) == sorted(glob.glob(pattern, include_hidden=True))
    whole = os.path.join(tree, pattern)
    assert paths.matching_here(whole) == sorted(glob.glob(whole, include_hidden=True))


LOOKS = {
    "gfile.Glob": lambda pattern: tf.gfile.Glob(pattern),
    "gfile.Walk": lambda pattern: list(tf.gfile.Walk(os.path.dirname(pattern))),
    "matching_files": lambda pattern: run(tf.matching_files(pattern)),
    "match_filenames_once": lambda pattern: run(tf.train.match_filenames_once(pattern)),
    "list_files": lambda pattern: run(tf.data.Dataset.list_files(pattern).make_one_shot_iterator().get_next()),
    "RecordInput": lambda pattern: run(record_input(pattern)),
    "checkpoint of version 1": lambda pattern: tf.train.load_checkpoint(pattern),
}


def record_input(pattern):
    from anabranch.ops.io import public_record_input

    return public_record_input.RecordInput(pattern, batch_size=1).get_yield_op()


def run(tensor):
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        return session.run(tensor)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_what_keeps_from_looking_into_a_folder_is_raised(tree, monkeypatch, look, number):
    def refused(*arguments):
        raise OSError(number, os.strerror(number), str(tree))

    monkeypatch.setattr(os, "scandir", refused)
    kind = tf.errors.ResourceExhaustedError if number == errno.EMFILE else tf.errors.UnknownError
    with tf.Graph().as_default(), pytest.raises(kind, match=os.strerror(number)):
        LOOKS[look](str(tree / "a*"))


def test_a_folder_that_must_not_be_looked_into_holds_nothing(tree, monkeypatch):
    def refused(*arguments):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tree))

    monkeypatch.setattr(os, "scandir", refused)
    assert tf.gfile.Glob(str(tree / "a*")) == []
