"""`tf.contrib.gan`: losses of models, training, pools, pictures; values stand in `tests/golden/contrib_older.json`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

gan = tf.contrib.gan


def generator(noise: Any) -> Any:
    return tf.layers.dense(noise, 2, name="make")


def discriminator(data: Any, _: Any) -> Any:
    return tf.layers.dense(data, 1, name="judge")


def model(**options: Any) -> Any:
    return gan.gan_model(generator, discriminator, tf.ones([4, 2]), tf.random_normal([4, 3]), **options)


def test_model_shares_the_discriminator() -> None:
    with tf.Graph().as_default():
        made = model()
        assert [v.op.name for v in made.generator_variables] == ["Generator/make/kernel", "Generator/make/bias"]
        assert [v.op.name for v in made.discriminator_variables] == [
            "Discriminator/judge/kernel",
            "Discriminator/judge/bias",
        ]
        assert made.discriminator_real_outputs.shape == made.discriminator_gen_outputs.shape == [4, 1]


def test_refusals_of_models() -> None:
    with tf.Graph().as_default():
        with pytest.raises(
            ValueError, match=r"Generator output shape \(\(4, 2\)\) must be the same shape as real data"
        ):
            gan.gan_model(generator, lambda data, _: tf.reduce_sum(data, 1), tf.ones([4, 5]), tf.ones([4, 3]))
        with tf.variable_scope("a"), pytest.raises(TypeError, match=r"must output a tuple consisting of \(discrim"):
            gan.acgan_model(generator, discriminator, tf.ones([4, 2]), tf.ones([4, 3]), tf.one_hot([0] * 4, 2))
        with tf.variable_scope("i"), pytest.raises(ValueError, match="Length of `predicted_distributions` 0 must be"):
            gan.infogan_model(
                lambda inputs: generator(inputs[0]),
                lambda data, inputs: (discriminator(data, inputs), []),
                tf.ones([4, 2]),
                [tf.ones([4, 3])],
                [tf.ones([4, 1])],
            )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gradient_penalty_weight": -1.0}, "`gradient_penalty_weight` must be greater than 0"),
        ({"mutual_information_penalty_weight": 1.0}, "`model` must be an `InfoGANModel`"),
        ({"aux_cond_generator_weight": 1.0}, "`model` must be an `ACGANModel`"),
    ],
)
def test_refusals_of_losses(options: dict[str, Any], text: str) -> None:
    with tf.Graph().as_default():
        made = model()
        with pytest.raises(ValueError, match=text):
            gan.gan_loss(made, **options)


def test_losses_find_their_arguments_in_a_model() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = model()._replace(discriminator_gen_outputs=tf.constant([1.0, 3.0]))
        loss = gan.losses.wasserstein_generator_loss(made, weights=[0.0, 2.0])
        assert session.run(loss) == -6.0
        with pytest.raises(ValueError, match="present in both the tuple and keyword args"):
            gan.losses.wasserstein_generator_loss(made, discriminator_gen_outputs=1.0)
        with pytest.raises(ValueError, match="`one_hot_labels` must be supplied to acgan_generator_loss"):
            gan.losses.acgan_generator_loss(made, discriminator_gen_classification_logits=1.0)


def test_a_penalty_with_a_tensor_as_weight_is_checked_in_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weight = tf.placeholder(tf.float32, [])
        loss = gan.gan_loss(model(), gradient_penalty_weight=weight).discriminator_loss
        session.run(tf.global_variables_initializer())
        assert np.isfinite(session.run(loss, {weight: 1.0}))
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            session.run(loss, {weight: -1.0})


def test_updates_belong_to_one_of_the_two() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = model()
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer(), trainable=False)
        with tf.name_scope("Generator/"):
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, counter.assign_add(1.0).op)
        ops = gan.gan_train_ops(made, gan.gan_loss(made), optimizer, optimizer)
        session.run(tf.global_variables_initializer())
        session.run(ops.discriminator_train_op)
        assert session.run(counter) == 0
        session.run(ops.generator_train_op)
        assert session.run(counter) == 1
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.no_op(name="elsewhere"))
        with pytest.raises(ValueError, match="There are unused update ops: elsewhere"):
            gan.gan_train_ops(made, gan.gan_loss(made), optimizer, optimizer)


@pytest.mark.parametrize("hooks", ["get_sequential_train_hooks", "get_joint_train_hooks"])
def test_training_draws_the_generator_to_the_data(hooks: str, tmp_path: Path) -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        made = gan.gan_model(
            lambda noise: tf.layers.dense(noise, 1, kernel_initializer=tf.zeros_initializer()),
            lambda data, _: tf.layers.dense(data, 1),
            tf.fill([8, 1], 3.0),
            tf.random_normal([8, 2]),
        )
        loss = gan.gan_loss(made)
        descent = tf.train.GradientDescentOptimizer(0.05)
        bounded = gan.features.clip_discriminator_weights(tf.train.GradientDescentOptimizer(0.05), made, 1.0)
        ops = gan.gan_train_ops(made, loss, descent, bounded)
        get_hooks = getattr(gan, hooks)(gan.GANTrainSteps(1, 3))
        last = gan.gan_train(
            ops,
            str(tmp_path),
            get_hooks,
            hooks=[tf.train.StopAtStepHook(num_steps=40)],
            save_checkpoint_secs=None,
            save_summaries_steps=None,
        )
        assert last == 40


def test_sequential_steps_of_slim() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = model()
        descent = tf.train.GradientDescentOptimizer(0.1)
        ops = gan.gan_train_ops(made, gan.gan_loss(made), descent, descent)
        session.run(tf.global_variables_initializer())
        step = tf.train.get_or_create_global_step()
        train = gan.get_sequential_train_steps(gan.GANTrainSteps(2, 1))
        loss, stop = train(session, ops, step, {"should_stop": step >= 2})
        assert np.isfinite(loss)
        assert not stop
        assert train(session, ops, step, {"should_stop": step >= 2})[1]
        assert session.run(step) == 2


def test_a_pool_gives_what_was_given_before() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int32, [1])
        pooled, twice = gan.features.tensor_pool((x, 2 * x), pool_size=3, pooling_probability=1.0)
        assert pooled.shape == [1]
        seen = []
        for value in range(12):
            one, other = session.run([pooled, twice], {x: [value]})
            assert other == 2 * one
            seen.append(int(one[0]))
        assert seen[:3] == [0, 1, 2]
        assert all(value < place for place, value in enumerate(seen[3:], 3))
        assert len(set(seen[3:])) == 9  # each leaves the pool once
        assert gan.features.tensor_pool(x, pool_size=0) is x
        with pytest.raises(ValueError, match="`pool_size` is negative"):
            gan.features.tensor_pool(x, pool_size=-1)
        fresh = gan.features.tensor_pool([x], pool_size=2, pooling_probability=0.0)
        assert [int(session.run(fresh, {x: [value]})[0][0]) for value in range(5)] == list(range(5))


def test_each_example_is_normalized_by_itself() -> None:
    kept, x = np.random.RandomState(0).randn(2, 5, 3).astype(np.float32), np.ones([4, 3], np.float32)
    x[1] = 5.0
    with tf.Graph().as_default(), tf.Session() as session:
        normalize = gan.features.VBN(tf.constant(kept[0]))
        both, one = normalize(tf.constant(x)), normalize(tf.constant(x[:1]))
        session.run(tf.global_variables_initializer())
        got, alone = session.run([both, one])
        np.testing.assert_allclose(got[:1], alone, rtol=1e-6)
        mean = (kept[0].sum(0) + 5.0) / 6
        squares = ((kept[0] ** 2).sum(0) + 25.0) / 6
        np.testing.assert_allclose(got[1], (5.0 - mean) / np.sqrt(squares - mean**2 + 1e-3), rtol=1e-4)
        with pytest.raises(ValueError, match=r"Shapes .* are incompatible"):
            normalize(tf.ones([4, 2]))
        with pytest.raises(ValueError, match="`axis` and `batch_axis` cannot be the same"):
            gan.features.VBN(tf.ones([4, 2]), axis=0)


def test_pictures_stand_row_by_row() -> None:
    pictures = np.arange(24, dtype=np.float32).reshape(4, 2, 3, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        grid = session.run(gan.eval.image_grid(tf.constant(pictures), (2, 2), (2, 3), 1))
        wanted = np.vstack([np.hstack(pictures[:2]), np.hstack(pictures[2:])])
        np.testing.assert_array_equal(grid[0], wanted)
        rows = session.run(gan.eval.image_reshaper(tf.constant(pictures[:3]), num_cols=2))
        wanted[2:, 3:] = 0
        np.testing.assert_array_equal(rows[0], wanted)
        with pytest.raises(ValueError, match="incompatible with minibatch size 4"):
            gan.eval.image_grid(tf.constant(pictures), (3, 2), (2, 3), 1)


def test_summaries_of_models() -> None:
    with tf.Graph().as_default():
        x, y = tf.random_uniform([4, 8, 8, 3]), tf.random_uniform([4, 8, 8, 3])
        made = gan.cyclegan_model(
            lambda data: tf.layers.conv2d(data, 3, 1, name="paint"),
            lambda data, _: tf.layers.dense(tf.layers.flatten(data), 1, name="judge"),
            x,
            y,
        )
        gan.eval.add_cyclegan_image_summaries(made)
        gan.eval.add_gan_model_summaries(made)
        gan.eval.add_regularization_loss_summaries(made)
        gan.eval.add_gan_model_image_summaries(made.model_x2y, grid_size=2, model_summaries=False)
        gan.eval.add_image_comparison_summaries(made.model_x2y, display_diffs=True)
        names = [tensor.op.name for tensor in tf.get_collection(tf.GraphKeys.SUMMARIES)]
        assert "x2y_image_comparison_summaries/image_comparison" in names
        assert len(names) == 2 + 8 + 4 + 2 + 1
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(tf.summary.merge_all())
        with pytest.raises(ValueError, match="does not take CycleGANModels"):
            gan.eval.add_gan_model_image_summaries(made)


def test_classifiers_of_pictures(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 299, 299, 3], name="Mul")
        tf.reduce_mean(x, [1, 2], name="pool_3")
        tf.identity(3.0 * tf.reduce_mean(x, [1, 2], keepdims=True), name="logits")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with tf.Graph().as_default(), tf.Session() as session:
        frozen = gan.eval.get_graph_def_from_disk(str(path))
        shades = tf.cast(tf.reshape(tf.range(4), [4, 1, 1, 1]), tf.uint8) * 60 + tf.zeros([4, 10, 12, 3], tf.uint8)
        images = gan.eval.preprocess_image(shades)
        logits = gan.eval.run_inception(images, frozen)
        assert session.run(logits).shape == (4, 3)
        np.testing.assert_allclose(session.run(logits)[0], -3.0, rtol=1e-5)

        def classify(batch: Any) -> Any:
            return gan.eval.run_inception(batch, frozen, output_tensor="pool_3:0")

        np.testing.assert_allclose(session.run(gan.eval.classifier_score(images, classify, 2)), 1.0, rtol=1e-5)
        distance = gan.eval.frechet_classifier_distance(images, images, classify, 2)
        np.testing.assert_allclose(session.run(distance), 0.0, atol=1e-5)
        with pytest.raises(ValueError, match="must provide `default_graph_def_fn`"):
            gan.eval.run_inception(images)
        with pytest.raises(NotImplementedError, match="get_graph_def_from_disk"):
            gan.eval.get_graph_def_from_url_tarball("an address", "graph.pb")


@pytest.mark.parametrize("use_svd", [False, True])
def test_sliced_distances(use_svd: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        real = tf.random_uniform([16, 32, 32, 3], seed=1)
        fake = tf.cumsum(tf.random_uniform([16, 32, 32, 3], seed=2), axis=1)
        pairs = gan.eval.sliced_wasserstein_distance(real, fake, patches_per_image=16, use_svd=use_svd)
        assert len(pairs) == 2
        for same, other in session.run(pairs):
            assert 0 < same < other


def test_a_coordinator_joins_threads_that_never_started() -> None:
    coordinator = tf.train.Coordinator()
    coordinator.request_stop()
    coordinator.join([threading.Thread(target=print)])
