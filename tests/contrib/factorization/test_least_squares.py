"""Weighted alternating least squares: each row's factors against NumPy's solution of its own system."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

WALSModel = tf.contrib.factorization.WALSModel
MATRIX = np.where(np.sin(np.arange(35) * 2.3).reshape(5, 7) > 0.2, np.cos(np.arange(35.0)).reshape(5, 7) + 2, 0)
FIRST = np.sin(np.arange(21) * 1.1).reshape(7, 3).astype(np.float32)
ROW_WEIGHTS, COLUMN_WEIGHTS = [[0.1, 0.2, 0.3], [0.4, 0.5]], [[0.1, 0.2, 0.3], [0.4, 0.5], [0.6, 0.7]]


def entries(rows=None, columns=None, transposed=False):
    """The entries of some rows and columns, last first."""
    places = np.argwhere(MATRIX)
    for axis, chosen in enumerate((rows, columns)):
        places = places if chosen is None else places[np.isin(places[:, axis], chosen)]
    places = places[::-1]
    values = MATRIX[tuple(places.T)].astype(np.float32)
    shape = MATRIX.shape
    return tf.SparseTensorValue(places[:, ::-1], values, shape[::-1]) if transposed else (places, values, shape)


def solution(matrix, other, mine, theirs, unobserved, ridge):
    """Factors of the rows of a matrix, one row at a time."""
    rows = []
    for row, weight in zip(matrix, mine, strict=True):
        observed = np.where(row != 0, weight * theirs, 0) + unobserved
        left = (other.T * observed) @ other + ridge * np.eye(other.shape[1])
        rows.append(np.linalg.solve(left, (other.T * observed) @ row))
    return np.array(rows)


def loss_of(u, v, mine, theirs, unobserved, ridge):
    weights = unobserved + np.where(MATRIX != 0, np.outer(mine, theirs), 0)
    return (weights * (MATRIX - u @ v.T) ** 2).sum(), ridge * ((u**2).sum() + (v**2).sum()), weights.sum()


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_sweep_solves_for_rows_then_for_columns(cached, weighted):
    mine, theirs = np.concatenate(ROW_WEIGHTS), np.concatenate(COLUMN_WEIGHTS)
    if not weighted:
        mine, theirs = 0 * mine, 0 * theirs
    rows = solution(MATRIX, FIRST.astype(float), mine, theirs, 0.1, 0.01)
    columns = solution(MATRIX.T, rows, theirs, mine, 0.1, 0.01)
    with tf.Graph().as_default(), tf.Session() as session:
        model = WALSModel(
            5,
            7,
            3,
            regularization=0.01,
            col_init=[FIRST[:3], FIRST[3:5], FIRST[5:]],
            num_row_shards=2,
            num_col_shards=3,
            row_weights=ROW_WEIGHTS if weighted else None,
            col_weights=COLUMN_WEIGHTS if weighted else None,
            use_factors_weights_cache=cached,
            use_gramian_cache=cached,
        )
        fed = tf.sparse_placeholder(tf.float32)
        _, update, loss, penalty, total = model.update_row_factors(fed)
        projected = model.project_row_factors(fed, projection_weights=[0.5, 0.2])
        session.run(model.initialize_op)
        session.run(model.worker_init)
        session.run(model.row_update_prep_gramian_op)
        session.run(model.initialize_row_update_op)
        for some in ([0, 2], [1, 4], [3]):
            session.run(update, {fed: entries(some)})
        np.testing.assert_allclose(np.concatenate(session.run(model.row_factors)), rows, rtol=2e-4, atol=2e-4)
        found = session.run([loss, penalty, total], {fed: entries()})
        np.testing.assert_allclose(found, loss_of(rows, FIRST, mine, theirs, 0.1, 0.01), rtol=1e-4)
        if weighted:
            new = session.run(projected, {fed: entries([1, 4])})
            np.testing.assert_allclose(new, rows[[4, 1]], rtol=2e-4, atol=2e-4)
        half = session.run([loss, total], {fed: entries([1, 4])})
        parts = np.where(np.isin(np.arange(5), [1, 4]), mine, -1)
        weights = 0.1 + np.where((MATRIX != 0) & (parts[:, None] >= 0), np.outer(mine, theirs), 0)
        expected = (weights * (MATRIX - rows @ FIRST.T) ** 2)[[1, 4]].sum() * 2.5
        observed = (weights - 0.1).sum() * 2.5
        np.testing.assert_allclose(half, [expected, 3.5 + observed], rtol=1e-4)

        _, update, loss, penalty, total = model.update_col_factors(fed, transpose_input=True)
        session.run(model.col_update_prep_gramian_op)
        session.run(model.initialize_col_update_op)
        session.run(update, {fed: entries(transposed=True)})
        np.testing.assert_allclose(np.concatenate(session.run(model.col_factors)), columns, rtol=1e-3, atol=1e-3)
        found = session.run([loss, penalty, total], {fed: entries(transposed=True)})
        np.testing.assert_allclose(found, loss_of(rows, columns, mine, theirs, 0.1, 0.01), rtol=1e-3)
        assert [v.op.name for v in tf.trainable_variables()][-4:] == [
            "col_factors_shard_1",
            "col_factors_shard_2",
            "row_gramian",
            "col_gramian",
        ]


def test_what_cannot_be_factors_or_weights_is_refused():
    with pytest.raises(ValueError, match="None for both"):
        WALSModel(2, 2, 1, row_weights=None)
    with pytest.raises(ValueError, match="one for each shard"):
        WALSModel(4, 2, 1, row_weights=[[1.0], [2.0], [3.0]], num_row_shards=2)
    with pytest.raises(ValueError, match="Invalid weight"):
        WALSModel(2, 2, 1, row_weights=-1)
    with pytest.raises(ValueError, match="a list of one array each"):
        WALSModel(4, 2, 1, num_row_shards=2, row_init=np.zeros([4, 1], np.float32))
    with pytest.raises(ValueError, match="a SparseTensor"):
        WALSModel(2, 2, 1).update_row_factors(tf.zeros([2, 2]))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (("MaskedMatmul", np.ones([2, 3]), np.ones([2, 2]), [[0, 0]], False, False), "incompatible"),
        (("MaskedMatmul", np.ones([2, 3]), np.ones([3, 2]), [[2, 0]], False, False), r"a row of mask_indices"),
        (("MaskedMatmul", np.ones([2, 3]), np.ones([3, 2]), [[0, -1]], False, False), r"a column of mask_indices"),
    ],
)
def test_products_at_places_that_are_not_there(inputs, said):
    name, a, b, *rest = inputs
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = {tf.placeholder(tf.float32): a, tf.placeholder(tf.float32): b}
        product = build(name, *feeds, np.array(rest[0], np.int64), *rest[1:])
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            session.run(product, feeds)
