"""Buckets of hash tables by hyperplanes."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


def _probes(products: np.ndarray, tables: int, planes: int, probes: int) -> tuple[np.ndarray, np.ndarray]:
    hashes, ids = (np.zeros([len(products), probes], np.int32) for _ in range(2))
    powers = 1 << np.arange(planes - 1, -1, -1)
    for row, product in enumerate(products.reshape(len(products), tables, planes)):
        own = (product >= 0) @ powers
        count = min(tables, probes)
        hashes[row, :count], ids[row, :count] = own[:count], np.arange(count)
        if count == probes:
            continue
        order = np.argsort(np.abs(product), axis=1, kind="stable")
        costs = np.take_along_axis(product, order, 1) ** 2
        flips = powers[order]
        # A candidate flips bits of one table: cost, table, mask, place of its last bit among the sorted ones.
        heap = [(costs[table, 0], table, int(flips[table, 0]), 0) for table in range(tables)]
        heapq.heapify(heap)
        for place in range(count, probes):
            cost, table, mask, last = heapq.heappop(heap)
            hashes[row, place], ids[row, place] = own[table] ^ mask, table
            if last < planes - 1:
                bit, added = int(flips[table, last + 1]), costs[table, last + 1]
                moved = cost - costs[table, last] + added, table, mask ^ int(flips[table, last]) ^ bit, last + 1
                heapq.heappush(heap, moved)
                heapq.heappush(heap, (cost + added, table, mask ^ bit, last + 1))
    return hashes, ids


@public("contrib.nearest_neighbor.hyperplane_lsh_probes")
def hyperplane_lsh_probes(
    point_hyperplane_product: Any,
    num_tables: Any,
    num_hyperplanes_per_table: Any,
    num_probes: Any,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Buckets of hash tables to look into for each point, the most promising ones first (Lv et al., 2007).

    First comes the point's own bucket in each table, then buckets on the other side of the nearest hyperplanes. The
    operation runs Python on the host.

    Args:
        point_hyperplane_product: ``[batch, num_tables * num_hyperplanes_per_table]``, inner products of points and
            hyperplanes.
        num_tables: how many tables.
        num_hyperplanes_per_table: bits of a bucket's number, at most 30.
        num_probes: how many buckets for each point.
        name: of the operation.

    Returns:
        Numbers of buckets and of tables, both ``[batch, num_probes]`` int32; they have no gradient.

    Raises:
        InvalidArgumentError: numbers that are not possible, in the step.

    >>> with tf.Session() as session:
    ...     probes, tables = tf.contrib.nearest_neighbor.hyperplane_lsh_probes([[1.0, -0.5, 0.3, -2.0]], 2, 2, 3)
    ...     print(*session.run([probes, tables]))
    [[2 2 0]] [[0 1 1]]
    """

    def computed(products: np.ndarray, tables: Any, planes: Any, probes: Any) -> tuple[np.ndarray, np.ndarray]:
        limit = int(tables) << int(planes)
        for wrong, text, expected in (
            (products.ndim != 2, "Need a two-dimensional product matrix.", "a matrix"),
            (tables < 1, "num_tables must be at least 1.", "a positive number"),
            (planes <= 0, "num_hyperplanes_per_table must be at least 1.", "a positive number"),
            (planes > 30, "Need num_hyperplanes_per_table <= 30.", "at most 30 of them"),
            (probes < 1, "num_probes must be at least 1.", "a positive number"),
            (probes > limit, "num_probes is larger than the number of buckets.", f"at most {limit}"),
            (
                products.shape[-1:] != (tables * planes,),
                "The product matrix must have num_tables * num_hyperplanes_per_table columns.",
                f"{tables * planes} columns",
            ),
        ):
            if wrong:
                given = f"products of shape {products.shape}, {tables} tables, {planes} hyperplanes, {probes} probes"
                advice = "hyperplane_lsh_probes(tf.matmul(points, hyperplanes), tables, hyperplanes, probes)"
                raise tf.errors.InvalidArgumentError(None, None, f"{text}\n" + errors.message(given, expected, advice))
        return _probes(products, int(tables), int(planes), int(probes))

    with tf.name_scope(name, "HyperplaneLSHProbes", [point_hyperplane_product]):
        products = tf.convert_to_tensor(point_hyperplane_product, name="point_hyperplane_product")
        numbers = [
            tf.convert_to_tensor(number, tf.int32) for number in (num_tables, num_hyperplanes_per_table, num_probes)
        ]
        probes, tables = tf.py_func(computed, [products, *numbers], [tf.int32, tf.int32], stateful=False)
        batch = products.shape.with_rank(2)[0] if products.shape.ndims is not None else None
        for result in (probes, tables):
            result.set_shape([batch, tf.contrib.util.constant_value(numbers[2])])
        return probes, tables
