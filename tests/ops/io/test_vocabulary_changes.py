"""Matrices of checkpoints for other vocabularies, and models that begin with another one's variables.

The expected matrices are those of the documentation of `load_and_remap_matrix_initializer` in TensorFlow.
"""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

SAVED = np.arange(9, dtype=np.float32).reshape(3, 3)  # w(i, j) = 3 * i + j


@pytest.fixture
def files(tmp_path):
    for name, words in {
        "old_rows": "mercury venus mars",
        "new_rows": "venus jupiter mercury",
        "old_columns": "good better best",
        "new_columns": "good best fantastic",
    }.items():
        (tmp_path / name).write_text("\n".join(words.split()))
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("weights", initializer=SAVED)
        tf.get_variable("bias", initializer=[1.0, 2.0])
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        assert weights.op.name == "weights"
    return path, {file.name: str(file) for file in tmp_path.iterdir() if "_" in file.name}


class Naturals:
    """Initializer of 1, 2, 3, ... from call to call."""

    def __init__(self, first):
        self.next = first

    def __call__(self, shape, dtype=tf.float32, partition_info=None):
        size = tf.reduce_prod(tf.convert_to_tensor(shape))
        values = tf.cast(tf.range(size) + self.next, tf.float32)
        if isinstance(shape[0], int):
            self.next += shape[0] * shape[1]
        else:
            self.next = 6
        return tf.reshape(values, shape)


def test_GenerateVocabRemapping(files) -> None:
    _, names = files
    with tf.Graph().as_default(), tf.Session() as session:

        def remapping(**attrs):
            made = tf.build_op("GenerateVocabRemapping", names["new_rows"], names["old_rows"], **attrs)
            places, count = session.run(made)
            return places.tolist(), int(count)

        assert remapping(new_vocab_offset=0, num_new_vocab=3) == ([1, -1, 0], 2)
        assert remapping(new_vocab_offset=1, num_new_vocab=2) == ([-1, 0], 1)
        assert remapping(new_vocab_offset=0, num_new_vocab=3, old_vocab_size=1) == ([-1, -1, 0], 1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="new vocabulary has 3 entries, too few for 3 from"):
            remapping(new_vocab_offset=1, num_new_vocab=3)
        with pytest.raises(tf.errors.InvalidArgumentError, match="old vocabulary has 3 entries, not 4"):
            remapping(new_vocab_offset=1, num_new_vocab=1, old_vocab_size=4)


def test_LoadAndRemapMatrix(files) -> None:
    path, _ = files
    with tf.Graph().as_default(), tf.Session() as session:

        def loaded(rows, columns, values, num_rows=2, num_cols=3, name="weights", path=path):
            rows, columns = tf.constant(rows, tf.int64), tf.constant(columns, tf.int64)
            values = tf.constant(values, tf.float32)
            made = tf.build_op(
                "LoadAndRemapMatrix", path, name, rows, columns, values, num_rows=num_rows, num_cols=num_cols
            )
            return session.run(made).tolist()

        assert loaded([2, 0], [], []) == [[6, 7, 8], [0, 1, 2]]
        assert loaded([2, 0], [], [], path=[path]) == [[6, 7, 8], [0, 1, 2]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have exactly one element"):
            loaded([2, 0], [], [], path=[path, path])
        assert loaded([2, -1], [1, -1, 0], [10, 11, 12, 13]) == [[7, 10, 6], [11, 12, 13]]
        for arguments, words in (
            (([0], [], []), "Size of row_remapping is 1 instead of being equal to num_rows=2"),
            (([0, 1], [0], []), "Size of col_remapping is 1 instead of being equal to num_cols=3"),
            (([0, 3], [], []), "row_remapping names 3, but the saved matrix has 3"),
            (([0, -1], [], [1.0]), "1 initializing values for 3 entries"),
            (([0, 1], [], [], 2, 4), "has 3 columns instead of num_cols=4"),
            (([0, 1], [], [], 2, 2, "bias"), "is of rank 1 instead of 2"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                loaded(*arguments)
        with pytest.raises(tf.errors.UnimplementedError, match="row_remapping names a place twice"):
            loaded([0, 0], [], [])


def test_matrices_of_other_vocabularies(files) -> None:
    path, names = files
    vocabularies = {
        "old_row_vocab_file": names["old_rows"],
        "new_row_vocab_file": names["new_rows"],
        "old_col_vocab_file": names["old_columns"],
        "new_col_vocab_file": names["new_columns"],
    }
    load = tf.contrib.framework.load_and_remap_matrix_initializer
    with tf.Graph().as_default(), tf.Session() as session:
        initial = load(
            path, "weights", 3, 3, **vocabularies, num_row_oov_buckets=2, num_col_oov_buckets=1, initializer=Naturals(1)
        )
        matrix = tf.get_variable("w", [5, 4], initializer=initial)
        session.run(matrix.initializer)
        assert session.run(matrix).tolist() == [
            [3, 5, 1, 12],
            [2, 3, 4, 13],
            [0, 2, 5, 14],
            [6, 7, 8, 15],
            [9, 10, 11, 16],
        ]
        parts = tf.get_variable(
            "parts",
            [4, 3],
            initializer=load(
                path,
                "weights",
                3,
                3,
                old_row_vocab_file=names["old_rows"],
                new_row_vocab_file=names["new_rows"],
                num_row_oov_buckets=1,
            ),
            partitioner=tf.fixed_size_partitioner(2),
        )
        session.run(tf.global_variables_initializer())
        assert session.run(tf.convert_to_tensor(parts)).tolist() == [[3, 4, 5], [0, 0, 0], [0, 1, 2], [0, 0, 0]]
        with pytest.raises(ValueError, match=r"Expected 2-dim shape .* received shape: \[5, 3\]"):
            initial([5, 3])
        with pytest.raises(TypeError, match="Currently, only float32 is supported"):
            initial([5, 4], tf.float64)
        embedding = tf.contrib.framework.load_embedding_initializer(
            path, "weights", 3, 3, names["old_rows"], names["new_rows"], initializer=tf.ones_initializer()
        )
        assert session.run(embedding([3, 3])).tolist() == [[3, 4, 5], [1, 1, 1], [0, 1, 2]]
    for arguments, words in (
        ({"old_row_vocab_file": "x"}, "must both be specified or left unspecified"),
        ({}, "Must provide either row or column vocab files"),
        ({"num_row_oov_buckets": -1}, "num_row_oov_buckets must be >= 0, but received -1"),
    ):
        with pytest.raises(ValueError, match=words):
            tf.contrib.framework.load_and_remap_matrix(path, "weights", 0, 3, 3, tf.zeros_initializer(), **arguments)
    with pytest.raises(TypeError, match="initializer must be callable"):
        load(path, "weights", 3, 3, initializer=3)


def test_models_begin_with_others_variables(files) -> None:
    path, names = files
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("new_weights", [4, 3])
        bias = tf.get_variable("bias", [2])
        tf.train.warm_start(
            path,
            var_name_to_vocab_info={
                "new_weights": tf.train.VocabInfo(
                    names["new_rows"], 3, 1, names["old_rows"], backup_initializer=tf.ones_initializer()
                )
            },
            var_name_to_prev_var_name={"new_weights": "weights"},
        )
        session.run(tf.global_variables_initializer())
        assert session.run(weights).tolist() == [[3, 4, 5], [1, 1, 1], [0, 1, 2], [1, 1, 1]]
        assert session.run(bias).tolist() == [1, 2]
        with pytest.raises(ValueError, match="in var_name_to_prev_var_name that were not used"):
            tf.train.warm_start(path, "bias", var_name_to_prev_var_name={"other": "bias"})
