"""What `fit`, `evaluate` and `predict` of ``tf.keras`` take with a number of steps, and what they refuse."""

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

X = np.arange(12, dtype=np.float32).reshape(12, 1)


@pytest.fixture(params=["graph", "eager"], autouse=True)
def where(request):
    with mode.eager_mode() if request.param == "eager" else tf.Graph().as_default():
        yield request.param


def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")])
    made.compile(tf.train.GradientDescentOptimizer(0.0), "mse")
    return made


def pairs(count=-1):
    return tf.data.Dataset.from_tensor_slices((X, X + 1.0)).batch(4).repeat(count)


def test_arrays_with_steps_are_taken_whole_in_each():
    assert model().predict(X, steps=3, batch_size=4).shape == (36, 1)
    assert model().evaluate(X, X + 2.0, steps=2, verbose=0) == pytest.approx(4.0)
    assert model().fit(X, X * 2.0, steps_per_epoch=2, verbose=0).history["loss"] == pytest.approx([42.166668])


def test_datasets_and_iterators():
    assert model().fit(pairs(), steps_per_epoch=2, epochs=2, verbose=0).history["loss"] == [1.0, 1.0]
    iterator = tf.compat.v1.data.make_one_shot_iterator(pairs())
    assert model().evaluate(iterator, steps=2, verbose=0) == 1.0
    assert model().predict(pairs(), steps=2).ravel().tolist() == list(range(8))
    assert model().train_on_batch(pairs()) == 1.0


def test_training_stops_where_batches_end(caplog):
    history = model().fit(pairs(1), steps_per_epoch=2, epochs=4, verbose=0).history
    assert history["loss"] == [1.0, 1.0]
    batches = ((X[i : i + 4], X[i : i + 4]) for i in (0, 4))
    assert model().fit(batches, steps_per_epoch=3, epochs=2, verbose=0).history["loss"] == [0.0]


def test_what_is_refused():
    with pytest.raises(ValueError, match="infinitely repeating dataset, you must specify the `steps_per_epoch`"):
        model().fit(pairs(), verbose=0)
    with pytest.raises(ValueError, match="When using iterators as input to a model, you should specify the `steps`"):
        model().evaluate(tf.compat.v1.data.make_one_shot_iterator(pairs()), verbose=0)
    with pytest.raises(ValueError, match="`batch_size` argument must not be specified"):
        model().fit(pairs(), batch_size=4, steps_per_epoch=1, verbose=0)
    with pytest.raises(ValueError, match="should not specify a target"):
        model().fit(pairs(), X, steps_per_epoch=1, verbose=0)
    with pytest.raises(ValueError, match="No data provided for"):
        model().evaluate(steps=2, verbose=0)


def test_a_model_of_tensors_needs_no_data(where):
    if where == "eager":
        pytest.skip("tensors of a graph are meant")
    inputs, targets = tf.compat.v1.data.make_one_shot_iterator(pairs()).get_next()
    place = tf.keras.Input(tensor=inputs)
    made = tf.keras.Model(place, tf.keras.layers.Dense(1, kernel_initializer="ones")(place))
    made.compile(tf.train.GradientDescentOptimizer(0.0), "mse", target_tensors=[targets])
    assert made.fit(steps_per_epoch=2, verbose=0).history["loss"] == [1.0]
    assert made.evaluate(steps=2, verbose=0) == 1.0
    with pytest.raises(ValueError, match="you should specify the `steps_per_epoch` argument"):
        made.fit(verbose=0)


class Uneven(tf.keras.utils.Sequence):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        rows = slice(0, 8) if number == 0 else slice(8, 12)
        return X[rows], X[rows] + (1.0 if number == 0 else 4.0)


def test_training_on_sequences_and_generators_counts_samples():
    # (8 * 1 + 4 * 16) / 12, as in TensorFlow 1.15.5; validation and datasets count batches.
    history = model().fit(Uneven(), verbose=0, shuffle=False, validation_data=Uneven()).history
    assert (history["loss"], history["val_loss"]) == (pytest.approx([6.0]), pytest.approx([8.5]))
    batches = (Uneven()[number] for number in (0, 1))
    assert model().fit(batches, steps_per_epoch=2, verbose=0).history["loss"] == pytest.approx([6.0])


def test_prediction_begins_metrics_anew():
    made = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")])
    made.compile(tf.train.GradientDescentOptimizer(0.0), "mse", ["mae"])
    made.fit(X, X + 3.0, verbose=0)
    made.predict(X)
    assert made.test_on_batch(X, X + 1.0)[1] == 1.0


def test_how_much_data_there_is_is_said_as_in_tensorflow(where, capsys):
    batches = tf.data.Dataset.from_tensor_slices((X, X)).batch(4).repeat()
    for optimizer, said in ((tf.train.GradientDescentOptimizer(0.0), where == "graph"), ("sgd", True)):
        made = model()
        made.compile(optimizer, "mse")
        made.fit(batches, steps_per_epoch=2, verbose=2)
        assert ("Train " in capsys.readouterr().out) is said


@pytest.mark.parametrize("form", ["csr", "coo", "csc", "lil", "dia"])
def test_sparse_matrices_of_every_form_are_inputs(form: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.arange(24, dtype=np.float32).reshape(6, 4) * (np.arange(24).reshape(6, 4) % 3 == 0)
    targets = np.arange(6, dtype=np.float32)[:, None]
    with tf.Graph().as_default():
        losses = []
        for x in (dense, sparse.coo_matrix(dense).asformat(form)):
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(4,))])
            model.compile(tf.train.GradientDescentOptimizer(1e-4), "mse")
            losses.append(model.fit(x, targets, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"])
            losses[-1].append(model.evaluate(x, targets, batch_size=4, verbose=0))
            losses[-1].extend(model.predict(x, batch_size=4)[:, 0])
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_a_model_without_inputs_takes_the_dicts_of_a_dataset() -> None:
    with mode.eager_mode():
        column = tf.feature_column
        words = column.categorical_column_with_vocabulary_list("w", ["a", "b"])
        columns = [
            column.numeric_column("x"),
            column.embedding_column(words, 2, initializer=tf.ones_initializer()),
            column.indicator_column(column.categorical_column_with_hash_bucket("w", 3)),
            column.bucketized_column(column.numeric_column("x"), [1.5]),
        ]
        features = {"x": np.array([[1.0], [2.0], [3.0]], np.float32), "w": np.array([["a"], ["b"], ["c"]])}
        data = tf.data.Dataset.from_tensor_slices((features, np.array([1.0, 2.0, 3.0], np.float32))).batch(3).repeat()
        dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
        made = tf.keras.Sequential([tf.keras.layers.DenseFeatures(columns), dense])
        made.compile("sgd", "mse")
        losses = made.fit(data, steps_per_epoch=1, epochs=3, verbose=0).history["loss"]
        np.testing.assert_allclose(losses, [12.0, 9.0518999, 6.9507327], rtol=1e-5)  # TensorFlow 1.15.5's
        assert made.input_names == ["w", "x"]
        assert made.predict(features).shape == (3, 1)
        assert made.evaluate(data, steps=1, verbose=0) < 6.95


def test_validation_on_a_sequence_begins_with_its_first_batch():
    taken = []

    class Pairs(tf.keras.utils.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            taken.append(i)
            return X[4 * i : 4 * i + 4], X[4 * i : 4 * i + 4] + i

    history = model().fit(X, X, epochs=3, verbose=0, validation_data=Pairs(), validation_steps=2).history
    assert history["val_loss"] == [0.5] * 3
    assert taken[:2] == [0, 1]


@pytest.mark.parametrize("loss", ["mae", "hinge", "logcosh", "poisson", "msle", "huber_loss", tf.keras.losses.Huber()])
def test_targets_of_one_column_are_broadcast(loss):
    made = tf.keras.Sequential([tf.keras.layers.Dense(3, "sigmoid", input_shape=(1,))])
    made.compile("sgd", loss, metrics=["cosine_proximity"])
    assert made.metrics_names == ["loss", "cosine_proximity"]
    y = np.linspace(0.0, 1.0, 12)
    given, whole = (made.test_on_batch(X, target)[0] for target in (y, np.repeat(y[:, np.newaxis], 3, 1)))
    assert given == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("loss", ["mse", "binary_crossentropy", "categorical_crossentropy"])
def test_targets_of_another_shape_are_refused(loss):
    made = tf.keras.Sequential([tf.keras.layers.Dense(3, "sigmoid", input_shape=(1,))])
    made.compile("sgd", loss)
    with pytest.raises(ValueError, match=r"A target array with shape \(12, 2\) was passed for an output of shape"):
        made.fit(X, np.zeros((12, 2)), verbose=0)
    words = "array of shape" if loss == "categorical_crossentropy" else "array with shape"
    with pytest.raises(ValueError, match=rf"target {words} \(12, 1\)"):
        made.fit(X, np.zeros(12), verbose=0)
    with pytest.raises(ValueError, match="Found 12 input samples and 5 target samples"):
        made.fit(X, np.zeros((5, 3)), verbose=0)


def test_the_loss_of_batches_of_several_sizes(where):
    """Where ops run at once training on a dataset weighs batches by their samples, as TensorFlow 1.15.5 does."""
    given = tf.data.Dataset.from_tensor_slices((X, X + X)).batch(8)
    first, second = np.mean(X[:8] ** 2), np.mean(X[8:] ** 2)
    over_batches, over_samples = (first + second) / 2, (8 * first + 4 * second) / 12
    history = model().fit(given, verbose=0).history
    assert history["loss"] == pytest.approx([over_samples if where == "eager" else over_batches])
    assert model().evaluate(given, verbose=0) == pytest.approx(over_batches)
    assert isinstance(model().predict_on_batch(X), tf.Tensor if where == "eager" else np.ndarray)
