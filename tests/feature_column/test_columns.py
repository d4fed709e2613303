"""Columns of features: what they refuse, and what the values of `tests/golden/contrib.json` do not show."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook

FC = tf.feature_column


def _run(outputs: Any) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(outputs)


def test_features_are_arrays_vectors_and_sparse_values_too() -> None:
    with tf.Graph().as_default():
        sparse = tf.SparseTensorValue([[0, 0], [1, 0]], np.array([2, 0]), [2, 1])
        columns = [FC.numeric_column("x"), FC.indicator_column(FC.categorical_column_with_identity("i", 3))]
        inputs = FC.input_layer({"x": np.array([1, 2], np.int32), "i": sparse}, columns)
        np.testing.assert_array_equal(_run(inputs), [[0, 0, 1, 1], [1, 0, 0, 2]])


def test_a_feature_of_unknown_rank_gets_its_last_axis_when_it_runs() -> None:
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32)
        inputs = FC.input_layer({"x": fed}, [FC.numeric_column("x")])
        with tf.Session() as session:
            assert session.run(inputs, {fed: [1.0, 2.0]}).tolist() == [[1.0], [2.0]]
            assert session.run(inputs, {fed: [[3.0]]}).tolist() == [[3.0]]
            with pytest.raises(tf.errors.InvalidArgumentError, match="cannot have rank 0"):
                session.run(inputs, {fed: 3.0})
        sparse = tf.sparse_placeholder(tf.int64)
        ids = FC.categorical_column_with_identity("i", 3)
        inputs = FC.input_layer({"i": sparse}, [FC.indicator_column(ids)])
        linear = FC.linear_model({"i": sparse}, [ids])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for value in (tf.SparseTensorValue([[0], [1]], [2, 0], [2]), ([[0, 0], [1, 0]], [2, 0], [2, 1])):
                assert session.run(inputs, {sparse: value}).tolist() == [[0, 0, 1], [1, 0, 0]]
                assert session.run(linear, {sparse: value}).tolist() == [[0], [0]]


def test_a_vocabulary_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("a\nb\nc\n")
    with tf.Graph().as_default():
        column = FC.categorical_column_with_vocabulary_file("w", str(file))
        assert (column.vocabulary_size, column.num_buckets) == (3, 3)
        wider = FC.categorical_column_with_vocabulary_file("w", str(file), vocabulary_size=2, num_oov_buckets=1)
        features = {"w": tf.constant([["c"], ["a"], ["z"]])}
        first = FC.input_layer(features, [FC.indicator_column(column)])
        second = FC.input_layer(features, [FC.indicator_column(wider)])
        np.testing.assert_array_equal(_run(first), [[0, 0, 1], [1, 0, 0], [0, 0, 0]])
        np.testing.assert_array_equal(_run(second), [[0, 0, 1], [1, 0, 0], [0, 0, 1]])


def test_an_embedding_begins_with_a_checkpoint(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("table", initializer=np.arange(6.0, dtype=np.float32).reshape(3, 2))
        session.run(table.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        ids = FC.categorical_column_with_identity("i", 3)
        column = FC.embedding_column(ids, 2, ckpt_to_load_from=path, tensor_name_in_ckpt="table")
        inputs = FC.input_layer({"i": tf.constant([[2], [0]])}, [column])
        np.testing.assert_array_equal(_run(inputs), [[4, 5], [0, 1]])


def test_a_linear_model_learns() -> None:
    with tf.Graph().as_default():
        word = FC.categorical_column_with_vocabulary_list("w", ["a", "b"])
        features = {"w": tf.constant([["a"], ["b"], ["a"]]), "x": tf.constant([1.0, 2.0, 3.0])}
        predicted = FC.linear_model(features, [word, FC.numeric_column("x")])
        loss = tf.reduce_mean(tf.square(predicted - tf.constant([[3.0], [4.0], [7.0]])))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            for _ in range(200):
                session.run(train)
            assert session.run(loss) < 1e-3


def test_an_id_that_is_not_below_the_number_fails_the_step() -> None:
    with tf.Graph().as_default():
        column = FC.indicator_column(FC.categorical_column_with_identity("i", 3))
        inputs = FC.input_layer({"i": tf.constant([[3]])}, [column])
        with pytest.raises(tf.errors.InvalidArgumentError, match="an id is not below num_buckets"):
            _run(inputs)


def test_columns_are_values() -> None:
    first, second = (FC.bucketized_column(FC.numeric_column("x"), [0, 1.5]) for _ in range(2))
    assert first == second
    assert len({first, second}) == 1
    assert "boundaries=(0, 1.5)" in repr(first)
    assert first.name == first._var_scope_name == "x_bucketized"
    crossed = FC.crossed_column([FC.crossed_column(["b", first], 5), "a"], 7)
    assert crossed.name == "a_X_b_X_x_bucketized"
    assert sorted(crossed._parse_example_spec) == ["a", "b", "x"]
    assert crossed._num_buckets == 7


IDS = FC.categorical_column_with_identity("i", 3)
HASHED = FC.categorical_column_with_hash_bucket("w", 5)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: FC.numeric_column("x", shape=(1, 0)), "shape dimensions must be greater than 0"),
        (lambda: FC.numeric_column("x", dtype=tf.string), "dtype must be convertible to float"),
        (lambda: FC.numeric_column("x", shape=(2,), default_value=[1.0]), "shape of default_value must be equal"),
        (lambda: FC.numeric_column("x", dtype=tf.int32, default_value=2.0), "must be compatible with dtype"),
        (lambda: FC.categorical_column_with_vocabulary_list("w", [1.5]), "vocabulary dtype must be string or integer"),
        (lambda: FC.bucketized_column(IDS, [1.0]), "must be a column generated with numeric_column"),
        (lambda: FC.bucketized_column(FC.numeric_column("x"), [2, 1]), "boundaries must be a sorted list"),
        (lambda: FC.bucketized_column(FC.numeric_column("x", (2, 2)), [1]), "must be one-dimensional"),
        (lambda: FC.categorical_column_with_identity("i", 3, default_value=3), "not in range"),
        (lambda: FC.categorical_column_with_identity("i", 0), "num_buckets 0 < 1"),
        (lambda: FC.categorical_column_with_hash_bucket("w", None), "hash_bucket_size must be set"),
        (lambda: FC.categorical_column_with_hash_bucket("w", 5, tf.float32), "dtype must be string or integer"),
        (lambda: FC.categorical_column_with_vocabulary_list("w", []), "must be non-empty"),
        (lambda: FC.categorical_column_with_vocabulary_list("w", ["a", "a"]), "Duplicate keys"),
        (lambda: FC.categorical_column_with_vocabulary_list("w", ["a"], tf.int32), "do not match"),
        (
            lambda: FC.categorical_column_with_vocabulary_list("w", ["a"], default_value=0, num_oov_buckets=1),
            "both num_oov_buckets and default_value",
        ),
        (lambda: FC.categorical_column_with_vocabulary_file("w", "/nowhere/file"), "does not exist"),
        (lambda: FC.crossed_column(["a"], 5), "length > 1"),
        (lambda: FC.crossed_column(["a", HASHED], 5), "not supported for crossing"),
        (lambda: FC.crossed_column(["a", FC.numeric_column("x")], 5), "Unsupported key type"),
        (lambda: FC.embedding_column(IDS, 0), "Invalid dimension 0"),
        (lambda: FC.embedding_column(IDS, 2, initializer="zeros"), "initializer must be callable"),
        (lambda: FC.embedding_column(IDS, 2, ckpt_to_load_from="x"), "Must specify both"),
        (lambda: FC.shared_embedding_columns([IDS, HASHED], 2), "must have the same type"),
        (
            lambda: FC.shared_embedding_columns([IDS, FC.categorical_column_with_identity("j", 4)], 2),
            "the same number of buckets",
        ),
        (lambda: FC.make_parse_example_spec([IDS, FC.numeric_column("i")]), "different parse_spec for key i"),
        (lambda: FC.make_parse_example_spec(["i"]), "must be _FeatureColumn instances"),
    ],
)
def test_what_a_column_cannot_be_made_of_is_refused(make: Any, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"(?s){match}.*Given: .*Expected: .*Instead: "):
        make()


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ([], "feature_columns must not be empty"),
        (["x"], "Items of feature_columns must be a _FeatureColumn"),
        ({"x": FC.numeric_column("x")}, "found dict"),
        ([FC.numeric_column("x"), FC.numeric_column("x", shape=2)], "Duplicate feature column name"),
        ([FC.numeric_column("nowhere")], "Feature nowhere is not in features dictionary"),
        ([FC.numeric_column("scalar")], "cannot have rank 0"),
        ([FC.numeric_column("sparse")], "SparseTensor is not supported"),
        ([IDS], "Items of feature_columns must be a _DenseColumn"),
        ([FC.indicator_column(FC.categorical_column_with_identity("x", 3))], "Invalid input, not integer"),
        ([FC.indicator_column(FC.categorical_column_with_hash_bucket("i", 3))], "dtype must be compatible"),
        ([FC.indicator_column(FC.sequence_categorical_column_with_identity("i", 3))], "must not be of type Sequence"),
    ],
)
def test_inputs_of_wrong_columns_are_refused(columns: Any, match: str) -> None:
    with tf.Graph().as_default():
        features = {
            "x": tf.constant([1.0]),
            "i": tf.constant([1]),
            "scalar": tf.constant(1.0),
            "sparse": tf.SparseTensor([[0, 0]], [1.0], [1, 1]),
        }
        with pytest.raises(ValueError, match=rf"(?s){match}.*Given: .*Expected: .*Instead: "):
            FC.input_layer(features, columns)


def test_internal_modules_have_the_classes_of_columns() -> None:
    hook.install()
    try:
        for module in ("feature_column", "feature_column_v2", "feature_column_lib"):
            found = importlib.import_module(f"tensorflow.python.feature_column.{module}")
            assert isinstance(IDS, found._CategoricalColumn)
            assert isinstance(FC.numeric_column("x"), (found._DenseColumn, found.NumericColumn))
            assert found.input_layer is FC.input_layer
            assert found._LazyBuilder({"x": np.array([1.0])}).get("x").shape.as_list() == [1, 1]
    finally:
        hook.uninstall()


def test_a_layer_of_columns_trains_its_tables() -> None:
    with tf.Graph().as_default():
        word = FC.categorical_column_with_vocabulary_list("w", ["a", "b"])
        columns = [FC.numeric_column("x"), FC.embedding_column(word, 3, initializer=tf.ones_initializer())]
        inputs = {"x": tf.keras.Input((1,), name="x"), "w": tf.keras.Input((1,), name="w", dtype=tf.string)}
        layer = tf.keras.layers.DenseFeatures(columns)
        outputs = tf.keras.layers.Dense(1, kernel_initializer="ones")(layer(inputs))
        model = tf.keras.Model(list(inputs.values()), outputs)
        model.compile("sgd", "mse")
        assert [weight.name for weight in layer.weights] == ["dense_features/w_embedding/embedding_weights:0"]
        tf.keras.backend.get_session().run(tf.tables_initializer())
        x, w = np.array([[1.0], [2.0], [3.0]]), np.array([["a"], ["b"], ["c"]])
        losses = model.fit([x, w], np.array([1.0, 2.0, 3.0]), epochs=3, verbose=0, shuffle=False).history["loss"]
        np.testing.assert_allclose(losses, [6.0, 4.8494124, 4.0017285], rtol=1e-5)  # TensorFlow 1.15.5's
        with pytest.raises(ValueError, match="We expected a dictionary here"):
            tf.keras.layers.DenseFeatures(columns)(tf.constant([[1.0]]))


def test_shared_tables_of_another_size_are_refused() -> None:
    with tf.Graph().as_default():
        columns = FC.shared_embedding_columns([IDS], 2, shared_embedding_collection_name="mine")
        FC.input_layer({"i": tf.constant([[1]])}, columns)
        others = FC.shared_embedding_columns([IDS], 3, shared_embedding_collection_name="mine")
        with pytest.raises(ValueError, match="contains variable of unexpected shape"):
            FC.input_layer({"i": tf.constant([[1]])}, others)


def test_columns_of_programs_define_what_tensorflows_names_say() -> None:
    hook.install()
    try:
        fc = importlib.import_module("tensorflow.python.feature_column.feature_column")
    finally:
        hook.uninstall()

    class Doubled(fc._DenseColumn):  # type: ignore[misc, name-defined]
        name = "doubled"
        _parse_example_spec = FC.numeric_column("x").parse_example_spec
        _variable_shape = tf.TensorShape([1])

        def _transform_feature(self, inputs: Any) -> Any:
            return 2 * inputs.get("x")

        def _get_dense_tensor(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
            return inputs.get(self)

    class Parity(fc._CategoricalColumn):  # type: ignore[misc, name-defined]
        name = "parity"
        _parse_example_spec = IDS.parse_example_spec
        _num_buckets = 2

        def _transform_feature(self, inputs: Any) -> Any:
            sparse = inputs.get("s")
            return tf.SparseTensor(sparse.indices, sparse.values % 2, sparse.dense_shape)

        def _get_sparse_tensors(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
            return fc._CategoricalColumn.IdWeightPair(inputs.get(self), None)

    with tf.Graph().as_default():
        features = {"x": tf.constant([1.0, 2.0]), "s": tf.SparseTensor([[0, 0], [1, 0]], [5, 4], [2, 1])}
        inputs = FC.input_layer(features, [Doubled(), FC.indicator_column(Parity())])
        np.testing.assert_array_equal(_run(inputs), [[2, 0, 1], [4, 1, 0]])
        assert sorted(FC.make_parse_example_spec([Doubled(), Parity()])) == ["i", "x"]
        assert FC.linear_model(features, [Doubled(), Parity()]).shape.as_list() == [2, 1]
        (tensor,) = fc._transform_features(features, [FC.numeric_column("x")]).values()
        assert tensor.shape.as_list() == [2, 1]
        column = FC.numeric_column("x")
        assert column._get_dense_tensor(fc._LazyBuilder(features)).shape.as_list() == [2, 1]


def test_features_of_different_batches_are_refused() -> None:
    with tf.Graph().as_default():
        features = {"x": tf.constant([1.0, 2.0]), "y": tf.constant([1.0, 2.0, 3.0])}
        columns = [FC.numeric_column("x"), FC.numeric_column("y")]
        for function in (FC.input_layer, FC.linear_model):
            with pytest.raises(ValueError, match=r"(?s)Batch size \(first dimension\) of each feature must be same"):
                function(features, columns)
