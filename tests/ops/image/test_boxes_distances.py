"""Boxes drawn and kept, and distances of sequences: NonMaxSuppression, NonMaxSuppressionV2, NonMaxSuppressionV3,
DrawBoundingBoxes, DrawBoundingBoxesV2, EditDistance, BipartiteMatch, ImageConnectedComponents.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.ops.strings.edit_distance import distance

BOXES = np.float32(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
)
SCORES = np.float32([0.9, 0.75, 0.6, 0.95, 0.5, 0.3])


def run(make: object) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"max_output_size": 3}, [3, 0, 5]),
        ({"max_output_size": 30}, [3, 0, 5]),
        ({"max_output_size": 2}, [3, 0]),
        ({"max_output_size": 9, "score_threshold": 0.4}, [3, 0]),
        ({"max_output_size": 9, "iou_threshold": 0.99}, [3, 0, 1, 2, 4, 5]),
        ({"max_output_size": 0}, []),
    ],
)
def test_the_best_of_overlapping_boxes(options: dict[str, float], wanted: list[int]) -> None:
    assert run(lambda: tf.image.non_max_suppression(BOXES, SCORES, **options)).tolist() == wanted
    turned = BOXES[:, [2, 3, 0, 1]]  # the other two corners
    assert run(lambda: tf.image.non_max_suppression(turned, SCORES, **options)).tolist() == wanted


def test_older_forms_of_suppression() -> None:
    assert run(lambda: build("NonMaxSuppression", BOXES, SCORES, 3, iou_threshold=0.5)).tolist() == [3, 0, 5]
    assert run(lambda: build("NonMaxSuppressionV2", BOXES, SCORES, 3, 0.5)).tolist() == [3, 0, 5]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"iou_threshold 1\.5"):
        run(lambda: tf.image.non_max_suppression(BOXES, SCORES, 3, 1.5))
    with pytest.raises(ValueError, match=r"Expected: \[n, 4\]"):
        run(lambda: tf.image.non_max_suppression(BOXES[:, :3], SCORES, 3))


def kept_one_by_one(boxes: np.ndarray, scores: np.ndarray, size: int, threshold: float) -> list[int]:
    """Suppression by its definition: each box, by falling score and rising number, against those that were kept."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = np.prod(high - low, axis=1)
    kept: list[int] = []
    for index in sorted(np.flatnonzero(scores > -np.inf), key=lambda index: (-scores[index], index)):
        for other in kept:
            sides = np.maximum(np.minimum(high[index], high[other]) - np.maximum(low[index], low[other]), 0)
            union = areas[index] + areas[other] - np.prod(sides)
            if areas[index] > 0 and areas[other] > 0 and np.prod(sides) / union > np.float32(threshold):
                break
        else:
            kept.append(int(index))
    return kept[:size]


@pytest.mark.parametrize(("threshold", "size"), [(0.5, 50), (0.1, 300), (0.9, 1000), (0.0, 0)])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_suppression_among_many_boxes_with_equal_scores_and_empty_boxes(
    threshold: float, size: int, step: float
) -> None:
    draws = np.random.RandomState(0)
    boxes, scores = draws.standard_normal((500, 4)).astype(np.float32), draws.standard_normal(500).astype(np.float32)
    if step:
        boxes, scores = np.round(boxes / step) * np.float32(step), np.round(scores / step) * np.float32(step)
        scores[[3, 70, 400]] = np.nan, np.inf, -np.inf
    wanted = kept_one_by_one(boxes, scores, size, threshold)
    assert run(lambda: tf.image.non_max_suppression(boxes, scores, size, threshold)).tolist() == wanted


def test_outlines_are_drawn() -> None:
    drawn = run(lambda: tf.image.draw_bounding_boxes(np.zeros((1, 5, 7, 3), np.float32), [[[0.25, 0.2, 0.8, 0.9]]]))
    inside = np.zeros((5, 7), bool)
    inside[1:4, 1:6] = True
    inside[2:3, 2:5] = False
    assert (drawn[0] == np.where(inside[..., None], np.float32([1, 1, 0]), 0)).all()
    outside = run(lambda: tf.image.draw_bounding_boxes(np.zeros((1, 5, 7, 1), np.float32), [[[-1.0, -1, 0.5, 0.5]]]))
    assert outside[0, 2, :4, 0].tolist() == [1, 1, 1, 1]
    assert outside[0, :3, 3, 0].tolist() == [1, 1, 1]
    assert outside.sum() == 6
    red = run(
        lambda: tf.image.draw_bounding_boxes(
            np.zeros((1, 3, 3, 3), np.float32), [[[0.0, 0, 1, 1]]], colors=[[0.5, 0, 0]]
        )
    )
    assert red[0, 0, 0].tolist() == [0.5, 0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="images of 2 channels"):
        run(lambda: tf.image.draw_bounding_boxes(np.zeros((1, 5, 7, 2), np.float32), np.zeros((1, 1, 4))))


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_distance_against_its_definition(first: list[int], second: list[int]) -> None:
    @functools.cache
    def by_definition(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            by_definition(i - 1, j) + 1,
            by_definition(i, j - 1) + 1,
            by_definition(i - 1, j - 1) + (first[i - 1] != second[j - 1]),
        )

    assert distance(first, second) == by_definition(len(first), len(second))


def test_distances_of_sparse_sequences() -> None:
    # Rows: ("a"), ("b"), (), and of the truth: (), ("a"), ("b", "c").
    hypothesis = ([[0, 0, 0], [1, 0, 0]], ["a", "b"], [2, 1, 1])
    truth = ([[0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]], ["a", "b", "c", "a"], [2, 2, 2])
    for normalize, wanted in ((True, [[np.inf, 1.0], [0.5, 1.0]]), (False, [[1, 1], [1, 1]])):
        found = run(
            lambda normalize=normalize: tf.edit_distance(
                tf.SparseTensor(*hypothesis), tf.SparseTensor(*truth), normalize=normalize
            )
        )
        assert found.tolist() == wanted
    with tf.Graph().as_default():
        made = tf.edit_distance(tf.SparseTensor(*hypothesis), tf.SparseTensor(*truth))
        assert made.shape.as_list() == [2, 2]
        with pytest.raises(TypeError, match="Hypothesis must be a SparseTensor"):
            tf.edit_distance([1], tf.SparseTensor(*truth))
        with pytest.raises(ValueError, match="ranks 2 and 3"):
            tf.edit_distance(tf.SparseTensor([[0, 0]], ["a"], [1, 1]), tf.SparseTensor(*truth))


# Distances, rows that take part, top_k, and what TensorFlow 1.15.5 found. Many are equal, so that the order counts.
MATCHES = [
    ([[2, 0], [1, 0]], -1, -1, [1, 0], [1, 0]),
    ([[0, 0], [1, 1], [2, 1], [1, 2]], -1, 0, [0, -1, 1, -1], [0, 2]),
    ([[1, 2, 0, 0], [0, 1, 2, 0], [2, 1, 2, 2], [2, 2, 0, 1], [2, 1, 0, 2]], -1, -1, [2, 0, 1, 3, -1], [1, 2, 0, 3]),
    ([[1, 1, 2, 0], [2, 0, 1, 0], [1, 0, 2, 1], [1, 2, 0, 0], [2, 0, 0, 1]], 3, -1, [3, 1, 0, -1, -1], [2, 1, -1, 0]),
    (
        [[2, 0, 1, 0, 0, 1], [1, 2, 1, 1, 1, 1], [1, 2, 0, 0, 0, 0], [0, 0, 2, 2, 0, 1]],
        -1,
        2,
        [1, -1, 2, -1],
        [-1, 0, 2, -1, -1, -1],
    ),
    ([[np.nan, 1], [2, 3]], -1, -1, [0, 1], [0, 1]),
    ([[np.inf, 1], [2, 3]], -0.5, -1, [1, 0], [1, 0]),
    ([[1, 2], [0, 3]], 1.9, -1, [0, -1], [0, -1]),
    (np.zeros((0, 3)), -1, -1, [], [-1, -1, -1]),
    (np.zeros((3, 0)), [-1], -1, [-1, -1, -1], []),
]


@pytest.mark.parametrize(("distances", "rows", "top_k", "to_column", "to_row"), MATCHES)
def test_greedy_matches(distances: object, rows: object, top_k: int, to_column: list[int], to_row: list[int]) -> None:
    found = run(lambda: tf.contrib.image.bipartite_match(np.float32(distances), rows, top_k))
    assert [values.tolist() for values in found] == [to_column, to_row]
    assert found[0].dtype == found[1].dtype == np.int32


def test_matches_of_too_many_rows_are_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        distances = tf.placeholder(tf.float32, [3, None])
        found = tf.contrib.image.bipartite_match(distances, 4.0)
        assert [t.shape.as_list() for t in found] == [[3], [None]]
        assert tf.gradients(tf.cast(found[0], tf.float32), distances) == [None]
        with pytest.raises(tf.errors.InvalidArgumentError, match="should be at least 4 rows in distance_mat, but only"):
            session.run(found, {distances: np.zeros((3, 2))})


PIXELS = np.array([[1, 1, 0, 2], [0, 1, 2, 2], [3, 0, 2, 0], [3, 3, 3, 1]])
PARTS = np.array([[1, 1, 0, 2], [0, 1, 2, 2], [3, 0, 2, 0], [3, 3, 3, 4]])


def test_connected_components_are_numbered_over_all_images() -> None:
    numbers = run(lambda: tf.contrib.image.connected_components(PIXELS))
    assert numbers.dtype == np.int32
    assert numbers.tolist() == PARTS.tolist()
    both = run(lambda: tf.contrib.image.connected_components(np.stack([PIXELS, PIXELS]).astype(np.float32)))
    assert both.tolist() == [PARTS.tolist(), np.where(PARTS, PARTS + 4, 0).tolist()]


@pytest.mark.parametrize(
    ("pixels", "wanted"),
    [
        ([["a", "a"], ["", "b"]], [[1, 1], [0, 2]]),
        ([[np.nan, np.nan], [1, 1.0]], [[1, 2], [3, 3]]),
        ([[-1, 0.0], [-1, 1.0]], [[1, 0], [1, 2]]),
        ([[True, True], [False, True]], [[1, 1], [0, 1]]),
        (np.zeros((0, 3)), np.zeros((0, 3)).tolist()),
    ],
)
def test_components_of_each_dtype(pixels: object, wanted: list[list[int]]) -> None:
    assert run(lambda: tf.contrib.image.connected_components(pixels)).tolist() == wanted


def test_components_that_wind() -> None:
    spiral = np.zeros((9, 9), bool)
    spiral[::2] = True
    spiral[1::4, -1] = spiral[3::4, 0] = True
    assert (run(lambda: tf.contrib.image.connected_components(spiral)) == spiral).all()
    assert run(lambda: tf.contrib.image.connected_components(~spiral)).max() == 4


def test_images_of_other_ranks_have_no_components() -> None:
    with pytest.raises(TypeError, match=r"images should have rank 2 \(HW\) or 3 \(NHW\)"):
        run(lambda: tf.contrib.image.connected_components(np.zeros(3)))
    with tf.Graph().as_default(), pytest.raises(ValueError, match="shape with unknown rank"):
        tf.contrib.image.connected_components(tf.placeholder(tf.float32))
