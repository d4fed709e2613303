"""How good generated pictures are, by what a classifier makes of them, and by sliced Wasserstein distances."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as

_HOME = "contrib.gan.eval."
INCEPTION_INPUT, INCEPTION_OUTPUT, INCEPTION_FINAL_POOL = "Mul:0", "logits:0", "pool_3:0"
INCEPTION_DEFAULT_IMAGE_SIZE = 299
publish_as(_HOME + "INCEPTION_DEFAULT_IMAGE_SIZE", INCEPTION_DEFAULT_IMAGE_SIZE)


@public(_HOME + "preprocess_image")
def preprocess_image(
    images: Any,
    height: int = INCEPTION_DEFAULT_IMAGE_SIZE,
    width: int = INCEPTION_DEFAULT_IMAGE_SIZE,
    scope: str | None = None,
) -> Any:
    """Pictures as Inception takes them: of one size, with values from -1 to 1.

    Args:
        images: ``[batch, height, width, channels]`` or ``[height, width, channels]``, from 0 to 255.
        height: height of the result.
        width: width of the result.
        scope: name of the operations.
    """
    single = images.shape.ndims == 3
    with tf.name_scope(scope, "preprocess", [images, height, width]):
        batch = images if images.dtype.is_floating else tf.to_float(images)
        resized = tf.image.resize_bilinear(batch[None] if single else batch, [height, width])
        resized = (resized - 128.0) / 128.0
        return resized[0] if single else resized


@public(_HOME + "get_graph_def_from_disk")
def get_graph_def_from_disk(filename: str) -> Any:
    """The GraphDef of a file."""
    with tf.gfile.GFile(filename, "rb") as file:
        return tf.GraphDef.FromString(file.read())


@public(_HOME + "get_graph_def_from_resource")
def get_graph_def_from_resource(filename: str) -> Any:
    """The GraphDef of a file, which may lie beside the calling program."""
    return tf.GraphDef.FromString(tf.resource_loader.load_resource(filename))


@public(_HOME + "get_graph_def_from_url_tarball")
def get_graph_def_from_url_tarball(url: str, filename: str, tar_filename: str | None = None) -> Any:
    """Refused: nothing is fetched from the network.

    Raises:
        NotImplementedError: always; the text says how to read a file.
    """
    raise NotImplementedError(
        errors.message(
            f"the address {url}",
            f"a file that holds {filename}",
            "tf.contrib.gan.eval.get_graph_def_from_disk(path), and graph_def= where pictures are classified",
        )
    )


@public(_HOME + "run_image_classifier")
def run_image_classifier(
    tensor: Any, graph_def: Any, input_tensor: str, output_tensor: Any, scope: str = "RunClassifier"
) -> Any:
    """What a frozen graph makes of pictures.

    Args:
        tensor: the pictures.
        graph_def: the graph.
        input_tensor: name of the tensor in whose place they come.
        output_tensor: name of the result, or a list of names.
        scope: name of the imported operations.
    """
    single = isinstance(output_tensor, str)
    names = [output_tensor] if single else list(output_tensor)
    outputs = tf.import_graph_def(graph_def, {input_tensor: tensor}, names, name=scope)
    return outputs[0] if single else outputs


@public(_HOME + "run_inception")
def run_inception(
    images: Any,
    graph_def: Any = None,
    default_graph_def_fn: Callable[[], Any] | None = None,
    image_size: int = INCEPTION_DEFAULT_IMAGE_SIZE,
    input_tensor: str = INCEPTION_INPUT,
    output_tensor: Any = INCEPTION_OUTPUT,
) -> Any:
    """What Inception makes of pictures, ``[batch, size]``.

    TensorFlow fetches the graph if there is none; here it is given.

    Args:
        images: ``[batch, size, size, channels]``, as :func:`preprocess_image` gives them.
        graph_def: the frozen graph.
        default_graph_def_fn: function that gives one.
        image_size: height and width of the pictures.
        input_tensor: name of the tensor in whose place they come.
        output_tensor: name of the result, or a list of names.

    Raises:
        ValueError: pictures of another size, or no graph.
    """
    images = tf.convert_to_tensor(images)
    images.shape.with_rank(4).assert_is_compatible_with([None, image_size, image_size, None])
    if graph_def is None:
        if default_graph_def_fn is None:
            raise ValueError(
                "If `graph_def` is `None`, must provide `default_graph_def_fn`.\n"
                + errors.message(
                    "no graph of Inception",
                    "its frozen graph, which is not fetched from the network",
                    "graph_def=tf.contrib.gan.eval.get_graph_def_from_disk(path)",
                )
            )
        graph_def = default_graph_def_fn()
    outputs = run_image_classifier(images, graph_def, input_tensor, output_tensor)
    if isinstance(outputs, list):
        return [tf.contrib.layers.flatten(each) for each in outputs]
    return tf.contrib.layers.flatten(outputs)


def _classified(images: Any, classifier_fn: Callable[..., Any], num_batches: int) -> Any:
    """What a classifier makes of pictures, some at a time."""
    parts = tf.stack(tf.split(images, num_batches))
    results = tf.map_fn(
        classifier_fn, parts, parallel_iterations=1, back_prop=False, swap_memory=True, name="RunClassifier"
    )
    return tf.concat(tf.unstack(results), 0)


def _kl_divergence(p: Any, p_logits: Any, q: Any) -> Any:
    """Divergences ``[batch]`` of rows of probabilities ``p``, of which logits are given, from one row ``q``."""
    for tensor in (p, p_logits, q):
        if not tensor.dtype.is_floating:
            raise ValueError(
                f"Input {tensor.name} must be floating type.\n"
                + errors.message(f"dtype {tensor.dtype.name}", "floats", "tf.to_float(x)")
            )
    for tensor, rank in ((p, 2), (p_logits, 2), (q, 1)):
        tensor.shape.assert_has_rank(rank)
    return tf.reduce_sum(p * (tf.nn.log_softmax(p_logits) - tf.log(q)), axis=1)


@public(_HOME + "classifier_score_from_logits")
def classifier_score_from_logits(logits: Any) -> Any:
    """The Inception score (Salimans et al., 2016): ``exp`` of the mean divergence of ``p(y | x)`` from ``p(y)``.

    Args:
        logits: ``[batch, classes]``.
    """
    logits.shape.assert_has_rank(2)
    wide = tf.to_double(logits)
    p = tf.nn.softmax(wide)
    score = tf.exp(tf.reduce_mean(_kl_divergence(p, wide, tf.reduce_mean(p, axis=0))))
    return tf.cast(score, logits.dtype)


@public(_HOME + "classifier_score")
def classifier_score(images: Any, classifier_fn: Callable[..., Any], num_batches: int = 1) -> Any:
    """:func:`classifier_score_from_logits` of pictures.

    Args:
        images: ``[batch, ...]``.
        classifier_fn: function from pictures to logits ``[batch, classes]``.
        num_batches: how many parts are classified one after the other.
    """
    return classifier_score_from_logits(_classified(images, classifier_fn, num_batches))


def _in_doubles(one: Any, other: Any) -> tuple[Any, Any]:
    one.shape.assert_has_rank(2)
    other.shape.assert_has_rank(2)
    return tf.to_double(one), tf.to_double(other)


def _distance_of_means(one: Any, other: Any) -> Any:
    return tf.reduce_sum(tf.squared_difference(tf.reduce_mean(one, 0), tf.reduce_mean(other, 0)))


@public(_HOME + "mean_only_frechet_classifier_distance_from_activations")
def mean_only_frechet_classifier_distance_from_activations(real_activations: Any, generated_activations: Any) -> Any:
    """The squared distance of the means of two sets of rows.

    Args:
        real_activations: ``[number, size]``.
        generated_activations: ``[number, size]``.
    """
    real, generated = _in_doubles(real_activations, generated_activations)
    return tf.cast(_distance_of_means(real, generated), real_activations.dtype)


@public(_HOME + "diagonal_only_frechet_classifier_distance_from_activations")
def diagonal_only_frechet_classifier_distance_from_activations(
    real_activations: Any, generated_activations: Any
) -> Any:
    """The Fréchet distance of two sets of rows whose elements are taken as independent.

    Args:
        real_activations: ``[number, size]``.
        generated_activations: ``[number, size]``.
    """
    real, generated = _in_doubles(real_activations, generated_activations)
    one, other = (tf.nn.moments(x, axes=[0])[1] for x in (real, generated))
    spread = tf.reduce_sum(one + other - 2.0 * tf.sqrt(one * other))
    return tf.cast(spread + _distance_of_means(real, generated), real_activations.dtype)


def symmetric_matrix_square_root(mat: Any, eps: float = 1e-10) -> Any:
    """A root of a symmetric matrix without negative eigenvalues, ``[n, n]``."""
    s, u, v = tf.svd(mat)
    roots = tf.where(s < eps, s, tf.sqrt(s))
    return tf.matmul(tf.matmul(u, tf.diag(roots)), v, transpose_b=True)


def trace_sqrt_product(sigma: Any, sigma_v: Any) -> Any:
    """The trace of the root of the product of two covariances ``[n, n]``, each symmetric."""
    root = symmetric_matrix_square_root(sigma)
    return tf.trace(symmetric_matrix_square_root(tf.matmul(root, tf.matmul(sigma_v, root))))


def _covariance(x: Any) -> Any:
    centred = x - tf.reduce_mean(x, 0)
    return tf.matmul(centred, centred, transpose_a=True) / (tf.to_double(tf.shape(x)[0]) - 1)


@public(_HOME + "frechet_classifier_distance_from_activations")
def frechet_classifier_distance_from_activations(real_activations: Any, generated_activations: Any) -> Any:
    """The Fréchet distance of two sets of rows, as if they were drawn from normal distributions (Heusel et al., 2017).

    Args:
        real_activations: ``[number, size]``.
        generated_activations: ``[number, size]``.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rows = tf.constant([[0.0], [2.0]])
    ...     distance = tf.contrib.gan.eval.frechet_classifier_distance_from_activations(rows, rows + 3.0)
    ...     print(session.run(distance))
    9.0
    """
    real, generated = _in_doubles(real_activations, generated_activations)
    one, other = _covariance(real), _covariance(generated)
    spread = tf.trace(one + other) - 2.0 * trace_sqrt_product(one, other)
    return tf.cast(spread + _distance_of_means(real, generated), real_activations.dtype)


@public(_HOME + "frechet_classifier_distance")
def frechet_classifier_distance(
    real_images: Any, generated_images: Any, classifier_fn: Callable[..., Any], num_batches: int = 1
) -> Any:
    """:func:`frechet_classifier_distance_from_activations` of pictures.

    Args:
        real_images: ``[batch, ...]``.
        generated_images: ``[batch, ...]``.
        classifier_fn: function from pictures to rows ``[batch, size]``.
        num_batches: how many parts are classified one after the other.
    """
    rows = [_classified(images, classifier_fn, num_batches) for images in (real_images, generated_images)]
    return frechet_classifier_distance_from_activations(*rows)


inception_score = functools.partial(
    classifier_score, classifier_fn=functools.partial(run_inception, output_tensor=INCEPTION_OUTPUT)
)
frechet_inception_distance = functools.partial(
    frechet_classifier_distance, classifier_fn=functools.partial(run_inception, output_tensor=INCEPTION_FINAL_POOL)
)
publish_as(_HOME + "inception_score", inception_score)
publish_as(_HOME + "frechet_inception_distance", frechet_inception_distance)


# ----------------------------------------------------------------------------------------- sliced Wasserstein distances
_BINOMIAL = np.array([1, 4, 6, 4, 1], np.float32)
_BLUR = np.outer(_BINOMIAL, _BINOMIAL).reshape(5, 5, 1, 1) / 256


def _blurred(batch: Any, gain: float) -> Any:
    channels = tf.unstack(tf.pad(batch, [[0, 0], [2, 2], [2, 2], [0, 0]], "REFLECT"), axis=-1)
    smooth = [tf.nn.conv2d(channel[..., None], _BLUR * gain, [1] * 4, "VALID") for channel in channels]
    return tf.concat(smooth, -1)


def _laplacian_pyramid(batch: Any, num_levels: int) -> list[Any]:
    """What is left of pictures ``[batch, height, width, channels]`` at each size, halved from level to level."""
    levels = [tf.to_float(batch)]
    for _ in range(1, num_levels):
        small = _blurred(levels[-1], 1)[:, ::2, ::2]
        sizes = tf.shape(small)
        spread = tf.concat([small, tf.zeros(sizes * [3, 1, 1, 1])], 0)
        levels[-1] -= _blurred(tf.batch_to_space(spread, [[0, 0], [0, 0]], 2), 4)
        levels.append(small)
    return levels


def _batch_to_patches(batch: Any, patches_per_image: int, patch_size: int) -> Any:
    """Random patches of pictures, ``[batch * patches_per_image, patch_size, patch_size, channels]``."""
    half = patch_size // 2

    def cut(pictures: Any) -> Any:
        batch_size, height, width, _ = pictures.shape
        count = patches_per_image * batch_size
        number, down, right = np.ogrid[0:count, -half : half + 1, -half : half + 1]
        down = down + np.random.randint(half, height - half, size=(count, 1, 1))
        right = right + np.random.randint(half, width - half, size=(count, 1, 1))
        return pictures[number // patches_per_image, down, right]

    return tf.py_func(cut, [batch], batch.dtype, stateful=True)


def _normalized(patches: Any) -> Any:
    mean, variance = tf.nn.moments(patches, [1, 2, 3], keep_dims=True)
    patches = (patches - mean) / tf.sqrt(variance)
    return tf.reshape(patches, [tf.shape(patches)[0], -1])


def _sorted(matrix: Any) -> Any:
    """Each column from its largest element to its smallest."""
    return tf.transpose(tf.nn.top_k(tf.transpose(matrix), tf.shape(matrix)[0])[0])


def _mean_distance(one: Any, other: Any) -> Any:
    return tf.reduce_mean(tf.abs(_sorted(one) - _sorted(other)))


def _sliced(one: Any, other: Any, count: int, size: int) -> Any:
    """The mean distance along random directions."""
    distances = []
    for _ in range(count):
        directions = tf.random_normal([tf.shape(one)[1], size])
        directions *= tf.rsqrt(tf.reduce_sum(tf.square(directions), 0, keepdims=True))
        distances.append(_mean_distance(tf.matmul(one, directions), tf.matmul(other, directions)))
    return tf.reduce_mean(distances)


def _along_axes(one: Any, other: Any) -> Any:
    """The mean distance along the singular vectors of both."""
    sizes, rows = tf.svd(tf.concat([one, other], 0))[:2]
    return _mean_distance(*tf.split(rows * sizes, 2, axis=0))


@public(_HOME + "sliced_wasserstein_distance")
def sliced_wasserstein_distance(
    real_images: Any,
    fake_images: Any,
    resolution_min: int = 16,
    patches_per_image: int = 64,
    patch_size: int = 7,
    random_sampling_count: int = 1,
    random_projection_dim: int = 7 * 7 * 3,
    use_svd: bool = False,
) -> Sequence[tuple[Any, Any]]:
    """Distances of patches of real and generated pictures at several sizes (Karras et al., 2017).

    Args:
        real_images: ``[batch, size, size, 3]``.
        fake_images: likewise.
        resolution_min: the smallest size.
        patches_per_image: patches of each picture.
        patch_size: height and width of a patch.
        random_sampling_count: how many times directions are drawn.
        random_projection_dim: number of random directions.
        use_svd: take singular vectors instead of random directions.

    Returns:
        For each size, from the largest, a pair: the distance of two draws from real pictures, and that of real from
        generated ones.

    Raises:
        ValueError: the shapes do not fit.
    """
    size = real_images.shape[1]
    real_images.shape.assert_is_compatible_with([None, None, size, 3])
    fake_images.shape.assert_is_compatible_with(real_images.shape)
    largest = int(size)
    levels = int(np.log2(largest)) - int(np.log2(min(resolution_min, largest))) + 1
    scores = []
    for real, fake in zip(
        _laplacian_pyramid(real_images, levels), _laplacian_pyramid(fake_images, levels), strict=True
    ):
        base, again, other = (
            _normalized(_batch_to_patches(level, patches_per_image, patch_size)) for level in (real, real, fake)
        )
        if use_svd:
            scores.append((_along_axes(base, again), _along_axes(base, other)))
        else:
            options = random_sampling_count, random_projection_dim
            scores.append((_sliced(base, again, *options), _sliced(base, other, *options)))
    return scores
