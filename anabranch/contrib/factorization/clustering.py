"""K-means clustering as a graph.

Policy. A :class:`KMeans` builds what TensorFlow's does: variables of the same names, an op that chooses first centers
(in several steps where one batch has too few points), and one that trains. Only the centers that a step reads are
those before it. Mixtures of Gaussians are not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.graph.build import build

SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"
KMC2_INIT = "kmc2"

for _name in ("SQUARED_EUCLIDEAN_DISTANCE", "COSINE_DISTANCE", "RANDOM_INIT", "KMEANS_PLUS_PLUS_INIT"):
    publish_as(f"contrib.factorization.{_name}", globals()[_name])


@public("contrib.factorization.KMeans")
class KMeans:
    """Centers of clusters of points, found by Lloyd's iterations over all points or over batches of them.

    >>> points = tf.constant([[0.0, 0.0], [0.0, 2.0], [9.0, 9.0], [9.0, 7.0]])
    >>> means = tf.contrib.factorization.KMeans(points, 2, initial_clusters=points[1:3])
    >>> _, nearest, _, _, choose, train = means.training_graph()
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(choose)
    ...     _ = session.run(train)
    ...     print(session.run(nearest[0]))
    [0 0 1 1]
    """

    def __init__(
        self,
        inputs: Any,
        num_clusters: Any,
        initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
        use_mini_batch: bool = False,
        mini_batch_steps_per_iteration: int = 1,
        random_seed: int = 0,
        kmeans_plus_plus_num_retries: int = 2,
        kmc2_chain_length: int = 200,
    ) -> None:
        """Say what is clustered and how; :meth:`training_graph` builds it.

        Args:
            inputs: points ``[n, d]``, float32, in random order, or a list of such.
            num_clusters: how many; not used where ``initial_clusters`` are given as an array.
            initial_clusters: the first centers ``[num_clusters, d]``, a function of the inputs and a number that gives
                up to that many, or how they are chosen: "random", "kmeans_plus_plus" or "kmc2".
            distance_metric: "squared_euclidean" or "cosine" (1 - cosine; centers are kept at length 1).
            use_mini_batch: whether a step moves centers towards the points of a batch, less and less, instead of to the
                means of all points.
            mini_batch_steps_per_iteration: after how many steps the centers that points are assigned to become those
                that steps have moved.
            random_seed: for the first centers.
            kmeans_plus_plus_num_retries: further candidates for each center; negative: some that grow with
                ``num_clusters``.
            kmc2_chain_length: over how many points one center is chosen.

        Raises:
            ValueError: no such way to choose, or no such distance.
        """
        ways = (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT, KMC2_INIT)
        if isinstance(initial_clusters, str) and initial_clusters not in ways:
            raise ValueError(
                f"Unsupported initialization algorithm '{initial_clusters}'\n"
                + errors.message(f"initial_clusters={initial_clusters!r}", f"one of {', '.join(ways)}", "'random'")
            )
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(
                f"Unsupported distance metric '{distance_metric}'\n"
                + errors.message(
                    f"distance_metric={distance_metric!r}", "'squared_euclidean' or 'cosine'", "'squared_euclidean'"
                )
            )
        self._inputs = [tf.convert_to_tensor(one) for one in (inputs if isinstance(inputs, list) else [inputs])]
        self._num_clusters = num_clusters
        self._initial_clusters = initial_clusters
        self._cosine = distance_metric == COSINE_DISTANCE
        self._by_batches = use_mini_batch
        self._steps = int(mini_batch_steps_per_iteration)
        self._seed = random_seed
        self._retries = kmeans_plus_plus_num_retries
        self._chain_length = kmc2_chain_length

    @property
    def _has_copy(self) -> bool:
        """Whether steps move a copy of the centers that points are assigned to."""
        return self._by_batches and self._steps > 1

    @property
    def _kept_at_length_1(self) -> bool:
        return self._cosine and (not self._by_batches or self._has_copy)

    def training_graph(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Build the graph.

        Returns:
            ``(all_scores, cluster_idx, scores, cluster_centers_initialized, init_op, training_op)``: for each of the
            inputs, in tuples, the distances ``[n, num_clusters]`` of its points from all centers, the number of the
            nearest one ``[n]`` and its distance ``[n]``; whether all first centers are chosen; the op that chooses
            them, to be run until they are; the op of a step.
        """
        given = self._initial_clusters
        if isinstance(given, str) or callable(given):
            count = tf.convert_to_tensor(self._num_clusters)
        else:
            given = tf.convert_to_tensor(given)
            count = tf.shape(given)[0]
        none = tf.constant([], tf.float32)
        centers = tf.Variable(none, name="clusters", validate_shape=False)
        initialized = tf.Variable(False, dtype=tf.bool, name="initialized")
        moved, counts, left = centers, None, None
        if self._has_copy:
            moved = tf.Variable(none, name="clusters_updated", validate_shape=False)
            left = tf.Variable(self._steps, dtype=tf.int64, name="update_in_steps")
            counts = tf.Variable(tf.zeros([count], tf.int64))
        elif self._by_batches:
            counts = tf.Variable(tf.ones([count], tf.int64))
        choose = _Choice(self, given, count, centers, moved, initialized).op()

        inputs, assigned_to = self._inputs, centers
        if self._cosine:
            inputs = [tf.nn.l2_normalize(points, 1) for points in inputs]
            if not self._kept_at_length_1:
                assigned_to = tf.nn.l2_normalize(centers, 1)
        all_scores, scores, nearest = self._assigned(inputs, assigned_to)
        if counts is None:
            train = self._train_on_all(inputs, count, nearest, centers)
        else:
            with tf.control_dependencies([self._moved_over(left, centers, moved, counts)]):
                train = self._train_on_batch(inputs, nearest, moved, counts)
        return all_scores, nearest, scores, initialized, choose, train

    # ------------------------------------------------------------------------------------------------------- distances
    def _assigned(self, inputs: Sequence[Any], centers: Any) -> tuple[Any, Any, Any]:
        """Distances from all centers, that from the nearest one, and its number, for each of the inputs."""
        directions = centers
        if self._cosine and not self._kept_at_length_1:
            directions = tf.nn.l2_normalize(centers, 1)
        results = []
        for points in inputs:
            product = tf.matmul(points, centers, transpose_b=True)
            if self._cosine:
                distances = 1 - product
            else:
                own = tf.reduce_sum(tf.square(points), 1, keepdims=True)
                theirs = tf.transpose(tf.reduce_sum(tf.square(centers), 1, keepdims=True))
                distances = own - 2 * product + theirs
            indices, least = build("NearestNeighbors", points, directions, 1)
            if self._cosine:
                least *= 0.5  # of vectors of length 1 the squared distance is twice that of the cosines
            results.append((distances, tf.squeeze(least, [-1]), tf.squeeze(indices, [-1])))
        all_scores, scores, nearest = zip(*results, strict=True)
        return all_scores, scores, nearest

    # -------------------------------------------------------------------------------------------------------- training
    def _train_on_all(self, inputs: Sequence[Any], count: Any, nearest: Sequence[Any], centers: Any) -> Any:
        """Move centers to the means of the points nearest to them; what nothing is near to goes to 0."""
        sums, counts = [], []
        for points, own in zip(inputs, nearest, strict=True):
            sums.append(tf.unsorted_segment_sum(points, own, count))
            counts.append(tf.unsorted_segment_sum(tf.ones([tf.shape(points)[0], 1]), own, count))
        means = tf.add_n(sums) / (tf.cast(tf.add_n(counts), sums[0].dtype) + tf.constant(1e-6, inputs[0].dtype))
        if self._kept_at_length_1:
            means = tf.nn.l2_normalize(means, 1)
        return tf.assign(centers, means)

    def _train_on_batch(self, inputs: Sequence[Any], nearest: Sequence[Any], centers: Any, counts: Any) -> Any:
        """Move centers by what their points differ from them, over how many points they have seen."""
        updates = []
        for points, own in zip(inputs, nearest, strict=True):
            ids, places = tf.unique(tf.reshape(own, [-1]))
            size = tf.size(ids)
            seen, old = tf.gather(counts, ids), tf.gather(centers, ids)
            more = tf.unsorted_segment_sum(tf.ones_like(places, dtype=counts.dtype.base_dtype), places, size)
            column = tf.concat([tf.reshape(size, [1]), tf.ones([tf.rank(points) - 1], tf.int32)], 0)
            change = tf.unsorted_segment_sum(points, places, size)
            change -= tf.cast(tf.reshape(more, column), points.dtype) * old
            change *= tf.reshape(tf.reciprocal(tf.cast(seen + more, points.dtype)), column)
            with tf.control_dependencies([seen, old]):
                updates += [tf.scatter_add(counts, ids, more), tf.scatter_add(centers, ids, change)]
        return tf.group(*updates)

    def _moved_over(self, left: Any, centers: Any, moved: Any, counts: Any) -> Any:
        """The op that lets points be assigned to the centers that steps have moved, when it is time."""
        if left is None:
            return tf.no_op()

        def move() -> Any:
            with tf.control_dependencies([tf.assign(left, self._steps - 1)]):
                new = tf.nn.l2_normalize(moved, 1) if self._cosine else tf.identity(moved)
            with tf.control_dependencies([tf.assign(centers, new)]):
                cleared = tf.assign(counts, tf.zeros_like(counts))
            with tf.control_dependencies([cleared]):
                return tf.identity(left)

        return tf.cond(left <= 0, move, lambda: tf.assign_sub(left, 1))


class _Choice:
    """The op that chooses the first centers, as many as one batch gives at a time."""

    def __init__(self, means: KMeans, given: Any, count: Any, centers: Any, moved: Any, initialized: Any) -> None:
        self._means = means
        self._inputs = means._inputs
        self._given = given
        self._count = count
        self._centers = centers
        self._moved = moved
        self._initialized = initialized
        self._chosen = tf.shape(centers)[0]
        self._missing = count - self._chosen
        self._points = tf.add_n([tf.shape(points)[0] for points in self._inputs])

    def op(self) -> Any:
        """The op: none of it is left to do when all are chosen."""
        return tf.cond(
            tf.equal(self._missing, 0),
            lambda: tf.group(tf.assert_equal(self._initialized, True)),
            lambda: tf.group(self._choose()),
        )

    def _choose(self) -> Any:
        with tf.control_dependencies([tf.assert_positive(self._missing)]):
            walks = isinstance(self._given, str) and self._given == KMC2_INIT
            missing = self._by_walks() if walks else self._added()
            return tf.cond(
                tf.equal(missing, 0), lambda: tf.group(tf.assign(self._initialized, True)), lambda: tf.group(tf.no_op())
            )

    def _kept(self, centers: Any) -> Any:
        """The centers, kept in both variables."""
        kept = tf.assign(self._centers, centers, validate_shape=False)
        if self._moved is not self._centers:
            kept = tf.assign(self._moved, kept, validate_shape=False)
        return kept

    def _added(self) -> Any:
        """Add to the centers; how many are missing then."""
        more = self._candidates()
        if self._means._cosine:
            more = tf.nn.l2_normalize(more, 1)
        everything = tf.cond(
            tf.equal(self._chosen, 0), lambda: tf.identity(more), lambda: tf.concat([self._centers, more], 0)
        )
        return self._count - tf.shape(self._kept(everything))[0]

    def _candidates(self) -> Any:
        given, means = self._given, self._means
        if callable(given):
            return given(self._inputs, self._missing)
        if not isinstance(given, str):
            with tf.control_dependencies([tf.assert_equal(self._missing, tf.shape(given)[0])]):
                return tf.identity(given)
        if given == RANDOM_INIT:
            return tf.cond(self._points <= self._missing, lambda: tf.concat(self._inputs, 0), self._at_random)
        with tf.control_dependencies([tf.assert_greater_equal(self._points, self._missing)]):
            points = self._inputs[0]
            if means._cosine:
                points = tf.nn.l2_normalize(points, 1)
            missing = tf.cast(self._missing, tf.int64)
            return build("KmeansPlusPlusInitialization", points, missing, means._seed, means._retries)

    def _at_random(self) -> Any:
        places = tf.random_uniform(
            tf.reshape(self._missing, [-1]),
            minval=0,
            maxval=tf.cast(self._points, tf.int64),
            seed=self._means._seed,
            dtype=tf.int64,
        )
        return tf.nn.embedding_lookup(self._inputs, places, partition_strategy="div")

    def _by_walks(self) -> Any:
        """Add a center for each part of the first input that has a walk's length; how many are missing then."""
        means, points = self._means, self._inputs[0]
        length = means._chain_length
        parts = tf.cast(tf.shape(points)[0] / length, tf.int32)
        walks = tf.maximum(tf.minimum(self._missing, parts), 1)

        def row(point: Any) -> Any:
            center = tf.reshape(point, [1, -1])
            return tf.nn.l2_normalize(center, 1) if means._cosine else center

        def walked(index: Any) -> Any:
            part = points[index * length : index * length + length]
            _, distances = build("NearestNeighbors", part, self._centers, 1)
            place = build("KMC2ChainInitialization", tf.squeeze(distances, [1]), means._seed)
            return tf.concat([self._centers, row(part[place])], 0)

        def body(index: Any, _: Any) -> tuple[Any, Any]:
            centers = tf.cond(tf.equal(self._chosen, 0), lambda: row(points[0]), lambda: walked(index))
            return index + 1, self._count - tf.shape(self._kept(centers))[0]

        _, missing = tf.while_loop(lambda index, _: index < walks, body, [0, 0])
        return missing
