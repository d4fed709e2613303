"""Cases of libraries of `tf.contrib` that TensorFlow 1.15 no longer had, to be run by TensorFlow 1.8.0.

They are made as those of `cases.py`.
"""

from cases import numbers

CASES = {}


def case(function):
    """Enter a case under its own name."""
    CASES[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------------- adversarial networks
@case
def gan_losses(tf):
    """Each loss of `gan.losses.wargs`, with weights of single examples."""
    wargs = tf.contrib.gan.losses.wargs
    real, generated = tf.constant(numbers(4, 2)), tf.constant(numbers(4, 2, start=2.0, scale=2.0))
    weights, others = [[1.0], [0.0], [2.0], [0.5]], [[0.5], [3.0], [0.0], [1.0]]
    labels = tf.constant([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    flat, flat_others = [1.0, 0.0, 2.0, 0.5], [0.5, 3.0, 0.0, 1.0]
    result = {}
    for kind in ("wasserstein", "minimax", "modified", "least_squares"):
        of_generator = getattr(wargs, kind + "_generator_loss")
        of_discriminator = getattr(wargs, kind + "_discriminator_loss")
        result[kind + "_generator"] = of_generator(generated, weights=weights)
        result[kind + "_discriminator"] = of_discriminator(
            real, generated, real_weights=weights, generated_weights=others
        )
        result[kind + "_plain"] = of_discriminator(real, generated)
    result["smooth"] = wargs.modified_generator_loss(generated, label_smoothing=0.3)
    result["labels"] = wargs.least_squares_discriminator_loss(real, generated, real_label=0.9, fake_label=-1)
    result["classes"] = wargs.acgan_discriminator_loss(real, generated, labels, 0.2, flat, flat_others)
    result["classes_of_generator"] = wargs.acgan_generator_loss(generated, labels, flat)
    normal = tf.contrib.distributions.Normal(numbers(4), 1.5)
    result["information"] = wargs.mutual_information_penalty([generated[:, 0]], [normal])
    result["cycle"] = wargs.cycle_consistency_loss(real, generated, real + 1.0, generated)
    result["collected"] = tf.stack(tf.losses.get_losses())
    return result


@case
def gan_gradient_penalty(tf):
    """The penalty of a discriminator whose slope does not depend on where it is taken."""

    def slope(data, _):
        return tf.matmul(data, [[2.0], [0.5], [0.1]])

    wargs = tf.contrib.gan.losses.wargs
    real, generated = tf.constant(numbers(4, 3)), tf.constant(numbers(4, 3, start=1.0))
    options = {"generator_inputs": None, "discriminator_fn": slope, "discriminator_scope": "d"}
    return {
        "plain": wargs.wasserstein_gradient_penalty(real, generated, **options),
        "target": wargs.wasserstein_gradient_penalty(real, generated, target=3.0, weights=0.5, **options),
        "one_sided": wargs.wasserstein_gradient_penalty(real, generated, target=3.0, one_sided=True, **options),
    }


def _networks(tf):
    def generator(inputs):
        if isinstance(inputs, list):
            inputs = tf.concat(inputs, 1)
        return tf.layers.dense(inputs, 3, name="make", kernel_regularizer=tf.nn.l2_loss)

    def discriminator(data, _):
        return tf.layers.dense(tf.tanh(tf.layers.dense(data, 4, name="look")), 1, name="judge")

    return generator, discriminator


def _losses_and_gradients(tf, model, loss):
    result = {"generator_loss": loss.generator_loss, "discriminator_loss": loss.discriminator_loss}
    for name in ("generator", "discriminator"):
        gradients = tf.gradients(getattr(loss, name + "_loss"), getattr(model, name + "_variables"))
        for index, gradient in enumerate(gradients):
            result[f"{name}_gradient{index}"] = gradient
    return result


@case
def gan_model(tf):
    """Losses and gradients of a whole model, with regularization and two losses of the generator."""
    gan = tf.contrib.gan
    generator, discriminator = _networks(tf)
    model = gan.gan_model(generator, discriminator, tf.constant(numbers(5, 3)), tf.constant(numbers(5, 2, start=2.0)))
    loss = gan.gan_loss(
        model,
        generator_loss_fn=gan.losses.modified_generator_loss,
        discriminator_loss_fn=gan.losses.modified_discriminator_loss,
    )
    result = _losses_and_gradients(tf, model, loss)
    other = tf.reduce_mean(tf.square(model.generated_data))
    for name, options in (("weight", {"weight_factor": 0.3}), ("ratio", {"gradient_ratio": 2.0})):
        result[name] = gan.losses.combine_adversarial_loss(loss, model, other, **options).generator_loss
    return result


@case
def gan_infogan_model(tf):
    """Losses and gradients of an InfoGAN."""
    gan = tf.contrib.gan
    generator, judge = _networks(tf)

    def discriminator(data, inputs):
        return judge(data, inputs), [tf.contrib.distributions.Normal(tf.layers.dense(data, 2, name="guess"), 1.0)]

    noise, structure = tf.constant(numbers(5, 2)), tf.constant(numbers(5, 2, start=1.0))
    model = gan.infogan_model(generator, discriminator, tf.constant(numbers(5, 3)), [noise], [structure])
    return _losses_and_gradients(tf, model, gan.gan_loss(model, mutual_information_penalty_weight=0.7))


@case
def gan_acgan_model(tf):
    """Losses and gradients of a model that classifies too."""
    gan = tf.contrib.gan
    generator, judge = _networks(tf)

    def discriminator(data, inputs):
        return judge(data, inputs), tf.layers.dense(data, 3, name="classes")

    labels = tf.one_hot([0, 2, 1, 1, 0], 3)
    model = gan.acgan_model(
        generator, discriminator, tf.constant(numbers(5, 3)), tf.constant(numbers(5, 2, start=2.0)), labels
    )
    loss = gan.gan_loss(model, aux_cond_generator_weight=0.5, aux_cond_discriminator_weight=2.0)
    return _losses_and_gradients(tf, model, loss)


@case
def gan_cyclegan_model(tf):
    """Losses of a CycleGAN."""
    gan = tf.contrib.gan
    generator, discriminator = _networks(tf)
    model = gan.cyclegan_model(
        generator, discriminator, tf.constant(numbers(5, 3)), tf.constant(numbers(5, 3, start=2.0))
    )
    loss = gan.cyclegan_loss(model)
    return {
        "x2y": tf.stack(list(loss.loss_x2y)),
        "y2x": tf.stack(list(loss.loss_y2x)),
        "reconstructed_x": model.reconstructed_x,
        "reconstructed_y": model.reconstructed_y,
    }


@case
def gan_virtual_batches(tf):
    """Normalization by a batch that stays the same, along two axes."""
    kept, x = tf.constant(numbers(4, 2, 3)), tf.constant(numbers(2, 2, 3, start=1.0, scale=2.0))
    last, middle = tf.contrib.gan.features.VBN(kept), tf.contrib.gan.features.VBN(kept, axis=1, name="middle")
    return {
        "last": last(x),
        "kept": last.reference_batch_normalization(),
        "middle": middle(x),
        "kept_middle": middle.reference_batch_normalization(),
    }


@case
def gan_scores(tf):
    """Scores of a classifier's outputs, and conditions."""
    evaluation, features = tf.contrib.gan.eval, tf.contrib.gan.features
    one, other = tf.constant(numbers(8, 3)), tf.constant(numbers(8, 3, start=2.0, scale=2.0))
    result = {"score": evaluation.classifier_score_from_logits(one)}
    for kind in ("", "mean_only_", "diagonal_only_"):
        name = kind + "frechet_classifier_distance_from_activations"
        result[kind + "distance"] = getattr(evaluation, name)(one, other)
    result["conditioned"] = features.condition_tensor(tf.reshape(one, [4, 2, 3]), tf.constant(numbers(4, 2)))
    with tf.variable_scope("classes"):
        result["of_class"] = features.condition_tensor_from_onehot(
            tf.reshape(one, [4, 2, 3]), tf.one_hot([0, 1, 1, 0], 2), embedding_size=3
        )
    pictures = tf.constant(numbers(4, 2, 3, 1))
    result["grid"] = evaluation.image_grid(pictures, (2, 2), (2, 3), 1)
    result["row"] = evaluation.image_reshaper(tf.unstack(pictures)[:3], num_cols=2)
    return result


@case
def bayesflow_monte_carlo(tf):
    """Expectations of samples that are given, with their gradients."""
    flow, family = tf.contrib.bayesflow.monte_carlo, tf.distributions
    location = tf.constant([0.5, -1.0])
    p, q = family.Normal(location, 0.7), family.Normal(tf.constant([0.0, 0.2]), 1.5)
    z = tf.constant(numbers(9, 2, scale=2.0))
    results = {
        "by_importance": flow.expectation_importance_sampler(lambda x: x * x - 0.4, p.log_prob, q, z=z),
        "as_logarithm": flow.expectation_importance_sampler_logspace(lambda x: -tf.abs(x), p.log_prob, q, z=z),
        "mean": flow.expectation(tf.sin, z * location, axis=[0, 1], keep_dims=True),
        "by_score": flow.expectation(tf.sin, z, p.log_prob, use_reparametrization=False),
    }
    results.update(("gradient_" + name, tf.gradients(value, location)[0]) for name, value in sorted(results.items()))
    return results
