"""Similarity, edges, colours, borders, suppression by name, tf.contrib.image."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import anabranch as tf
from anabranch.ops.image import colour
from anabranch.session import SessionOptions

RANDOM = np.random.default_rng(8)
TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])


def run(make: object, tier: str = "auto") -> object:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


def similarity(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    place = np.arange(11) - 5.0
    window = np.exp(-(place[:, None] ** 2 + place**2) / (2 * 1.5**2))
    window /= window.sum()
    whole, structure = [], []
    for channel in range(a.shape[-1]):
        x, y = a[..., channel], b[..., channel]

        def local(z: np.ndarray) -> np.ndarray:
            return scipy.signal.convolve2d(z, window, "valid")

        mx, my = local(x), local(y)
        vx, vy, both = local(x * x) - mx**2, local(y * y) - my**2, local(x * y) - mx * my
        cs = (2 * both + 0.03**2) / (vx + vy + 0.03**2)
        whole.append(np.mean(cs * (2 * mx * my + 0.01**2) / (mx**2 + my**2 + 0.01**2)))
        structure.append(np.mean(cs))
    return np.array(whole), np.array(structure)


@TIERS
def test_similarity(tier: str) -> None:
    a = RANDOM.uniform(size=(2, 24, 20, 3)).astype(np.float32)
    b = np.clip(a + RANDOM.normal(0, 0.1, a.shape), 0, 1).astype(np.float32)
    found, same, whole = run(
        lambda: [
            tf.image.ssim(a, b, 1.0),
            tf.image.ssim(a[0], a[0], 1.0),
            tf.image.ssim((a * 255).astype(np.uint8), (b * 255).astype(np.uint8), 255),
        ],
        tier,
    )
    wanted = [similarity(x.astype(float), y.astype(float))[0].mean() for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(found, wanted, 1e-4)
    assert same == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(whole, wanted, 0.02)


def test_similarity_at_several_sizes() -> None:
    a = RANDOM.uniform(size=(1, 48, 45, 1))
    b = np.clip(a + RANDOM.normal(0, 0.1, a.shape), 0, 1)
    found = run(lambda: tf.image.ssim_multiscale(a.astype(np.float32), b.astype(np.float32), 1.0, (0.3, 0.7)))

    def halved(x: np.ndarray) -> np.ndarray:
        x = np.pad(x, ((0, x.shape[0] % 2), (0, x.shape[1] % 2), (0, 0)), "symmetric")
        return x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2, -1).mean((1, 3))

    first, second = similarity(a[0], b[0])[1], similarity(halved(a[0]), halved(b[0]))[0]
    np.testing.assert_allclose(found, np.maximum(first, 0) ** 0.3 * np.maximum(second, 0) ** 0.7, 1e-3)


def test_gradients_and_edges() -> None:
    x = RANDOM.normal(size=(2, 5, 6, 3))
    down, right, edges = run(lambda: [*tf.image.image_gradients(x), tf.image.sobel_edges(x)])
    np.testing.assert_allclose(down[:, :-1], np.diff(x, axis=1))
    np.testing.assert_allclose(right[:, :, :-1], np.diff(x, axis=2))
    assert not down[:, -1].any()
    assert not right[:, :, -1].any()
    for place in range(2):
        wanted = scipy.ndimage.sobel(x, axis=1 + place, mode="mirror")
        # SciPy smooths along all other axes; here only height and width count.
        wanted = np.stack(
            [
                np.stack([scipy.ndimage.sobel(x[b, ..., c], place, mode="mirror") for c in range(3)], -1)
                for b in range(2)
            ]
        )
        np.testing.assert_allclose(edges[..., place], wanted, 1e-5, 1e-5)


def test_colours_there_and_back() -> None:
    x = RANDOM.uniform(size=(3, 4, 3)).astype(np.float32)
    yiq, yuv, first, second = run(
        lambda: [
            tf.image.rgb_to_yiq(x),
            tf.image.rgb_to_yuv(x),
            tf.image.yiq_to_rgb(tf.image.rgb_to_yiq(x)),
            tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(x)),
        ]
    )
    for luma in (yiq[..., 0], yuv[..., 0]):
        np.testing.assert_allclose(luma, x @ [0.299, 0.587, 0.114], 1e-5)
    np.testing.assert_allclose(first, x, 1e-4, 1e-4)  # there and back are rounded each by itself
    np.testing.assert_allclose(second, x, 1e-4, 1e-5)
    back = run(lambda: tf.image.yiq_to_rgb(np.eye(3)[None]))
    wanted = [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
    np.testing.assert_array_equal(back[0], wanted)  # TensorFlow's numbers
    grey = run(lambda: tf.image.rgb_to_yuv(np.full((1, 1, 3), 0.5, np.float32)))
    np.testing.assert_allclose(grey[0, 0, 1:], 0, atol=1e-6)


def test_resizing_with_a_border() -> None:
    found = run(lambda: tf.image.resize_image_with_pad(np.ones((4, 8, 2), np.float32), 6, 6))
    assert found.shape == (6, 6, 2)
    assert found[..., 0].sum(1).tolist() == [0, 6, 6, 6, 0, 0]
    batch = run(lambda: tf.image.resize_image_with_pad(np.ones((2, 9, 3, 1), np.float32), 3, 5))
    assert batch[0, ..., 0].tolist() == [[0, 0, 1, 0, 0]] * 3


def test_suppression_by_name() -> None:
    boxes = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0.6, 1, 1.6], [2, 2, 3, 3]])
    scores = np.float32([0.9, 0.8, 0.7, 0.6])
    overlaps = np.eye(4, dtype=np.float32)
    overlaps[0, 1] = overlaps[1, 0] = 0.9

    def make() -> list[tf.Tensor]:
        padded = tf.image.non_max_suppression_padded(boxes, scores, 6, 0.5, pad_to_max_output_size=True)
        assert padded.selected_indices.shape.as_list() == [6]
        combined = tf.image.combined_non_max_suppression(
            boxes[None, :, None], scores[None, :, None], 3, 5, 0.5, clip_boxes=False
        )
        return [
            *padded,
            *tf.image.non_max_suppression_with_scores(boxes, scores, 4, 1.0, 0.0, 0.5),
            tf.image.non_max_suppression_overlaps(overlaps, scores, 3),
            *combined,
        ]

    indices, count, soft, soft_scores, by_overlaps, kept, kept_scores, classes, counts = run(make)
    assert indices.tolist() == [0, 2, 3, 0, 0, 0]
    assert count == 3
    assert soft.tolist()[0] == 0
    assert set(soft.tolist()) == {0, 1, 2, 3}
    assert np.all(np.diff(soft_scores) <= 0)
    assert soft_scores[-1] < 0.6
    assert by_overlaps.tolist() == [0, 2, 3]
    assert kept[0, :3].tolist() == boxes[[0, 2, 3]].tolist()
    np.testing.assert_allclose(kept_scores[0], [0.9, 0.7, 0.6, 0, 0])
    assert counts.tolist() == [3]
    assert not classes.any()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"iou_threshold must be in \[0, 1\]"):
        run(lambda: tf.image.non_max_suppression_padded(boxes, scores, 6, 1.5).selected_indices)


@TIERS
def test_images_are_turned_and_moved(tier: str) -> None:
    x = RANDOM.normal(size=(5, 5, 2)).astype(np.float32)
    image = tf.contrib.image

    def make() -> list[tf.Tensor]:
        quarter = image.angles_to_projective_transforms(np.pi / 2, 5, 5)
        moved = image.translations_to_projective_transforms([[1.0, -2.0]])
        return [
            image.rotate(x, np.pi / 2),
            image.rotate(x[None], [np.pi], "bilinear")[0],
            image.translate(x[..., 0], [1.0, -2.0]),
            image.transform(x, image.compose_transforms(quarter, quarter, moved)),
            image.matrices_to_flat_transforms(image.flat_transforms_to_matrices(moved)),
            image.transform(x, [1.0, 0, 0, 0, 1, 0, 0, 0], output_shape=[3, 7]),
        ]

    turned, half, moved, composed, flat, cut = run(make, tier)
    np.testing.assert_allclose(turned, np.rot90(x))
    np.testing.assert_allclose(half, np.rot90(x, 2), 1e-4, 1e-4)
    wanted = np.zeros((5, 5), np.float32)
    wanted[:3, 1:] = x[2:, :4, 0]
    np.testing.assert_allclose(moved, wanted)
    assert composed.shape == (5, 5, 2)
    np.testing.assert_allclose(flat, [[1, 0, -1, 0, 1, 2, 0, 0]])
    assert cut.shape == (3, 7, 2)
    np.testing.assert_allclose(cut[:, :5], x[:3])
    assert not cut[:, 5:].any()


def test_gradient_of_a_transformation() -> None:
    """Where pixels only change places the gradient puts them back."""
    x = RANDOM.normal(size=(4, 4, 1)).astype(np.float32)
    weights = RANDOM.normal(size=(4, 4, 1)).astype(np.float32)
    found = run(lambda: tf.gradients(tf.contrib.image.rotate(image := tf.constant(x), np.pi / 2), image, weights)[0])
    np.testing.assert_allclose(found, np.rot90(weights, -1))


def test_errors() -> None:
    x = np.zeros((4, 4, 3), np.float32)
    with tf.Graph().as_default():
        for make, kind, text in (
            (
                lambda: tf.contrib.image.rotate(np.zeros(3, np.float32), 1.0),
                TypeError,
                "Images should have rank between 2 and 4",
            ),
            (
                lambda: tf.contrib.image.transform(x, np.zeros((1, 2, 8))),
                TypeError,
                "Transforms should have rank 1 or 2",
            ),
            (lambda: tf.contrib.image.transform(x, np.zeros(8), "cubic"), ValueError, "interpolation='CUBIC'"),
            (lambda: tf.image.image_gradients(x), ValueError, "image_gradients expects a 4D tensor"),
            (lambda: tf.image.ssim(x, np.zeros((5, 4, 3), np.float32), 1.0), ValueError, "are incompatible"),
            (lambda: tf.image.resize_image_with_pad(x, 0, 4), ValueError, "target_height must be > 0"),
        ):
            with pytest.raises(kind, match=text):
                make()


@pytest.mark.parametrize("shape", [(20, 31, 3), (3, 7, 5, 3)])
def test_blocks_of_pixels_are_recoloured_as_a_whole_is(monkeypatch, shape):
    pixels = RANDOM.random(shape).astype(np.float32)
    numbers = [np.float32(0.3), RANDOM.random((shape[0], *(1,) * (len(shape) - 2))).astype(np.float32)]
    for recolour, number in itertools.product((colour._turn, colour._saturate), numbers):
        whole = colour._recoloured(recolour, pixels, number)
        with monkeypatch.context() as patch:
            patch.setattr(colour, "_BLOCK", 64)
            np.testing.assert_array_equal(colour._recoloured(recolour, pixels, number), whole)


@pytest.mark.parametrize("amount", [0.0, 0.1, -0.3, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("images", ["random", "bytes", "grey", "few", "negative"])
def test_hue_and_saturation_by_planes_are_the_definition(images, amount):
    draw = np.random.default_rng(7)
    pixels = {
        "random": draw.random((2, 20, 31, 3)),
        "bytes": draw.integers(0, 256, (20, 31, 3)),
        "grey": np.repeat(draw.random((20, 31, 1)), 3, 2),
        "few": draw.integers(0, 3, (20, 31, 3)),
        "negative": draw.random((20, 31, 3)) - 0.4,
    }[images].astype(np.float32)
    hsv = colour.to_hsv(np, pixels)
    hue, saturation = hsv[..., 0] + np.float32(amount), np.clip(hsv[..., 1] * np.float32(amount), 0, 1)
    turned = colour.to_rgb(np, np.stack([hue - np.floor(hue), hsv[..., 1], hsv[..., 2]], -1))
    paler = colour.to_rgb(np, np.stack([hsv[..., 0], saturation, hsv[..., 2]], -1))
    tolerance = 2e-6 * np.abs(pixels).max()
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        fed = tf.placeholder(tf.float32, pixels.shape)
        found = session.run(
            [tf.image.adjust_hue(fed, min(amount, 1.0)), tf.image.adjust_saturation(fed, max(amount, 0.0))],
            {fed: pixels},
        )
    if amount <= 1:
        np.testing.assert_allclose(found[0], turned, atol=tolerance)
    if amount >= 0:
        np.testing.assert_allclose(found[1], paler, atol=tolerance)


@pytest.mark.parametrize("change", [tf.image.adjust_hue, tf.image.adjust_saturation])
@pytest.mark.parametrize("amount", [0.0, 0.3, 1.0, 2.5])
def test_colours_at_the_edges_are_alike_in_both_tiers(change: Any, amount: float) -> None:
    values = np.array([-1.0, 0.0, 0.25, 1.0, 7.0], np.float32)
    pixels = np.stack(np.meshgrid(values, values, values), -1).reshape(5, 25, 3)  # greys, ties, none above zero
    found = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            images = tf.placeholder(tf.float32, [5, 25, 3])
            delta = min(amount, 1.0) if change is tf.image.adjust_hue else amount
            found.append(session.run(change(images, delta), {images: pixels}))
    assert np.isfinite(found[1]).all()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
