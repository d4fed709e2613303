"""Matrix factorisation by weighted alternating least squares (Hu, Koren and Volinsky, 2008), as a graph.

Policy. A :class:`WALSModel` builds what TensorFlow's does: variables of the same names, one for each shard; ops that
compute the Gramian of one side, that copy it and the factors to where updates run, and that solve for rows or columns
of the other side. Entries that are not in the matrix count as zeros of a small weight, through the Gramian alone.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build


class _Side(NamedTuple):
    """One side of the product: the rows or the columns of the matrix."""

    size: int
    factors: list[Any]
    weights: list[Any] | None


class _Copies(NamedTuple):
    """What an update reads: variables, or copies of them where it runs, with ops that fill and empty those."""

    values: Any
    fill: Any
    empty: Any


def _shard_sizes(size: int, shards: int) -> list[int]:
    each, more = divmod(size, shards)
    return [each + 1] * more + [each] * (shards - more)


def _is_random(init: Any) -> bool:
    return isinstance(init, str) and init == "random"


def _factors(size: int, depth: int, shards: int, init: Any, name: str) -> list[Any]:
    given = init() if callable(init) else init
    if not isinstance(given, list) and not _is_random(given):
        if shards != 1:
            raise ValueError(
                errors.message(f"one array for {shards} shards of {name}", "a list of one array each", "[a, b, ...]")
            )
        given = [given]
    sizes = _shard_sizes(size, shards)
    if isinstance(given, list) and len(given) != shards:
        raise ValueError(errors.message(f"{len(given)} arrays for {name}", f"{shards}, one for each shard", "[a, b]"))

    def first(place: int) -> Callable[[], Any]:
        return lambda: tf.random_normal([sizes[place], depth]) if _is_random(given) else given[place]

    return [tf.Variable(first(place), dtype=tf.float32, name=f"{name}_shard_{place}") for place in range(len(sizes))]


def _filled(value: Any, count: int) -> Any:
    return value * tf.ones([count])


def _weights(given: Any, size: int, shards: int, name: str) -> list[Any] | None:
    if given is None:
        return None
    sizes = _shard_sizes(size, shards)
    if isinstance(given, Iterable):
        lists: Sequence[Any] = list(given)
        if shards == 1 and len(lists) == size:
            lists = [lists]
        if len(lists) != shards:
            raise ValueError(
                errors.message(f"{len(lists)} lists of {name}", f"{shards}, one for each shard", "[[0.5, 1.0], [2.0]]")
            )
        firsts: Sequence[Any] = lists
    elif isinstance(given, numbers.Real) and float(given) >= 0:
        firsts = [partial(_filled, given, count) for count in sizes]
    else:
        raise ValueError(
            "Invalid weight initialization argument.\n"
            + errors.message(f"{name}={given!r}", "None, a number of at least 0, or a list of lists of such", "1.0")
        )
    return [tf.Variable(first, dtype=tf.float32, name=f"{name}_shard_{i}") for i, first in enumerate(firsts)]


def _local(name: str) -> Any:
    return tf.Variable(
        1.0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], validate_shape=False, name=name
    )


def _copies(variables: Any, name: str, direct: bool) -> _Copies:
    """Copies of a variable or of a list of them, or those themselves if they are read ``direct``."""
    if variables is None or direct:
        nothing = None if variables is None else tf.no_op()
        return _Copies(variables, nothing, nothing)
    several = isinstance(variables, list)
    sources = variables if several else [variables]
    locals_ = [_local(f"{name}_shard_{i}") for i in range(len(sources))] if several else [_local(name)]
    fill, empty = None, []
    for source, copy in zip(sources, locals_, strict=True):
        with tf.colocate_with(copy), tf.control_dependencies([] if fill is None else [fill]):
            fill = tf.assign(copy, source, validate_shape=False)
        with tf.colocate_with(copy):
            empty.append(tf.assign(copy, 1.0, validate_shape=False))
    return _Copies(locals_ if several else locals_[0], fill, tf.group(*empty))


def _set_rows(factors: list[Any], size: int, rows: Any, values: Any, name: str) -> Any:
    """An op that writes rows, by their numbers in the whole, to the shards that hold them."""
    if len(factors) == 1:
        with tf.colocate_with(factors[0]):
            return tf.scatter_update(factors[0], rows, values, name=name).op
    each, more = divmod(size, len(factors))
    shards = tf.maximum(rows // (each + 1), (rows - more) // each)
    places = tf.where(shards < more, rows % (each + 1), (rows - more) % each)
    shards = tf.cast(shards, tf.int32)
    places = tf.dynamic_partition(places, shards, len(factors))
    parts = tf.dynamic_partition(values, shards, len(factors))
    updates = [tf.scatter_update(*each) for each in zip(factors, places, parts, strict=True)]
    return tf.group(*updates, name=name)


@public("contrib.factorization.WALSModel")
class WALSModel:
    """Factors ``U [rows, k]`` and ``V [columns, k]`` of a sparse matrix ``A``, found by turns.

    The loss is ``sum(W * (A - U V^T) ** 2) + regularization * (sum(U ** 2) + sum(V ** 2))``, where ``W`` is
    ``unobserved_weight``, and ``row_weights[i] * col_weights[j]`` more where ``A`` has an entry. For fixed columns the
    rows are solved for, and the other way round.

    A sweep over the rows runs :attr:`row_update_prep_gramian_op`, :attr:`initialize_row_update_op`, then what
    :meth:`update_row_factors` returned for each batch of rows; likewise for columns. Before the first one run
    :attr:`initialize_op` and :attr:`worker_init`.

    >>> matrix = tf.SparseTensor([[0, 0], [1, 1], [2, 0]], [1.0, 2.0, 1.0], [3, 2])
    >>> model = tf.contrib.factorization.WALSModel(3, 2, 1, 0.01, 0.001, col_init=[[1.0], [0.5]])
    >>> _, update, loss, penalty, _ = model.update_row_factors(matrix)
    >>> with tf.Session() as session:
    ...     for op in (model.initialize_op, model.worker_init, model.row_update_prep_gramian_op):
    ...         session.run(op)
    ...     session.run(model.initialize_row_update_op)
    ...     session.run(update)
    ...     print(session.run(model.row_factors[0]).round(2).tolist())
    [[0.99], [3.84], [0.99]]
    """

    def __init__(
        self,
        input_rows: int,
        input_cols: int,
        n_components: int,
        unobserved_weight: float = 0.1,
        regularization: float | None = None,
        row_init: Any = "random",
        col_init: Any = "random",
        num_row_shards: int = 1,
        num_col_shards: int = 1,
        row_weights: Any = 1,
        col_weights: Any = 1,
        use_factors_weights_cache: bool = True,
        use_gramian_cache: bool = True,
    ) -> None:
        """Make the variables and the ops that need no input.

        Args:
            input_rows: number of rows of the matrix.
            input_cols: number of its columns.
            n_components: ``k``.
            unobserved_weight: weight of every place of the matrix.
            regularization: weight of the squares of the factors, or None for no such term.
            row_init: first factors of rows: "random" (normal), an array ``[input_rows, k]``, a list of such, one for
                each shard, or a function that returns one of these.
            col_init: likewise for columns.
            num_row_shards: how many variables hold the factors of rows.
            num_col_shards: likewise for columns.
            row_weights: one number for all rows, a list of lists (one of numbers for each shard), a list of numbers if
                there is one shard, or None for both kinds: entries weigh as much as other places.
            col_weights: likewise for columns.
            use_factors_weights_cache: whether updates read copies of factors and weights, made by the ops above.
            use_gramian_cache: likewise for the Gramians.

        Raises:
            ValueError: weights of rows without those of columns or the other way round; another number of arrays or of
                lists than of shards; weights that are none of the above.
        """
        if (row_weights is None) != (col_weights is None):
            raise ValueError(
                errors.message(
                    f"row_weights={row_weights!r}, col_weights={col_weights!r}", "None for both, or for neither", "1"
                )
            )
        self._depth, self._unobserved, self._regularization = n_components, unobserved_weight, regularization
        self._ridge = None if regularization is None else regularization * tf.eye(n_components)
        row_weights = _weights(row_weights, input_rows, num_row_shards, "row_weights")
        col_weights = _weights(col_weights, input_cols, num_col_shards, "col_weights")
        rows = _factors(input_rows, n_components, num_row_shards, row_init, "row_factors")
        columns = _factors(input_cols, n_components, num_col_shards, col_init, "col_factors")
        self._rows = _Side(input_rows, rows, row_weights)
        self._columns = _Side(input_cols, columns, col_weights)
        self._row_gramian = tf.Variable(tf.zeros([n_components] * 2), dtype=tf.float32, name="row_gramian")
        self._col_gramian = tf.Variable(tf.zeros([n_components] * 2), dtype=tf.float32, name="col_gramian")
        self._prepare_rows = self._prepared(columns, self._col_gramian)
        self._prepare_columns = self._prepared(rows, self._row_gramian)
        direct = not use_factors_weights_cache
        row_factors = _copies(rows, "row_factors_cache", direct)
        col_factors = _copies(columns, "col_factors_cache", direct)
        row_copies = _copies(row_weights, "row_wt_cache", direct)
        col_copies = _copies(col_weights, "col_wt_cache", direct)
        row_gramian = _copies(self._row_gramian, "row_gramian_cache", not use_gramian_cache)
        col_gramian = _copies(self._col_gramian, "col_gramian_cache", not use_gramian_cache)
        self._row_copies = row_factors.values, row_copies.values, row_gramian.values
        self._col_copies = col_factors.values, col_copies.values, col_gramian.values
        self._begin_rows = tf.group(col_factors.fill, row_factors.empty, col_gramian.fill, row_gramian.empty)
        self._begin_columns = tf.group(row_factors.fill, col_factors.empty, row_gramian.fill, col_gramian.empty)
        if row_weights is None:
            self._worker_init = tf.no_op(name="worker_init")
        else:
            self._worker_init = tf.group(row_copies.fill, col_copies.fill, name="worker_init")

    @staticmethod
    def _prepared(factors: list[Any], gramian: Any) -> Any:
        parts = []
        for shard in factors:
            with tf.colocate_with(shard):
                parts.append(tf.matmul(shard, shard, transpose_a=True))
        with tf.colocate_with(gramian):
            return tf.assign(gramian, tf.add_n(parts)).op

    @property
    def row_factors(self) -> list[Any]:
        """Variables of the factors of rows, one for each shard."""
        return self._rows.factors

    @property
    def col_factors(self) -> list[Any]:
        """Variables of the factors of columns, one for each shard."""
        return self._columns.factors

    @property
    def row_weights(self) -> list[Any] | None:
        """Variables of the weights of rows, one for each shard, or None."""
        return self._rows.weights

    @property
    def col_weights(self) -> list[Any] | None:
        """Variables of the weights of columns, one for each shard, or None."""
        return self._columns.weights

    @property
    def initialize_op(self) -> Any:
        """An op that gives all variables but the copies their first values."""
        variables = [*self._rows.factors, *self._columns.factors, self._row_gramian, self._col_gramian]
        return tf.variables_initializer([*variables, *(self._rows.weights or ()), *(self._columns.weights or ())])

    @property
    def worker_init(self) -> Any:
        """An op that copies the weights to where updates run."""
        return self._worker_init

    @property
    def row_update_prep_gramian_op(self) -> Any:
        """An op that computes the columns' Gramian; it runs before :attr:`initialize_row_update_op`."""
        return self._prepare_rows

    @property
    def col_update_prep_gramian_op(self) -> Any:
        """An op that computes the rows' Gramian; it runs before :attr:`initialize_col_update_op`."""
        return self._prepare_columns

    @property
    def initialize_row_update_op(self) -> Any:
        """An op that copies what updates of rows read."""
        return self._begin_rows

    @property
    def initialize_col_update_op(self) -> Any:
        """An op that copies what updates of columns read."""
        return self._begin_columns

    def update_row_factors(self, sp_input: Any = None, transpose_input: bool = False) -> tuple[Any, Any, Any, Any, Any]:
        """Solve for the rows of which ``sp_input`` has entries.

        Args:
            sp_input: all entries of some rows of the matrix, numbered as in the whole.
            transpose_input: ``sp_input`` is the transpose of that.

        Returns:
            The new factors ``[n, k]`` of those rows in the order in which they first occur; an op that writes them;
            the loss without its last two terms, those terms, and the sum of the weights, as estimates for the whole
            matrix from these rows (each but the term of the other side times ``input_rows / n``).
        """
        return self._solved(True, sp_input, transpose_input)

    def update_col_factors(self, sp_input: Any = None, transpose_input: bool = False) -> tuple[Any, Any, Any, Any, Any]:
        """Solve for columns; arguments and results as for :meth:`update_row_factors`."""
        return self._solved(False, sp_input, transpose_input)

    def project_row_factors(
        self, sp_input: Any = None, transpose_input: bool = False, projection_weights: Any = None
    ) -> Any:
        """Factors ``[n, k]`` of new rows, for the columns at hand.

        Args:
            sp_input: rows; their columns are numbered as in the matrix.
            transpose_input: ``sp_input`` is the transpose of that.
            projection_weights: weights of the rows, one for all or a vector; 1 if None.
        """
        weights = 1 if projection_weights is None else projection_weights
        return self._solved(True, sp_input, transpose_input, weights)[0]

    def project_col_factors(
        self, sp_input: Any = None, transpose_input: bool = False, projection_weights: Any = None
    ) -> Any:
        """Factors of new columns, for the rows at hand; arguments as for :meth:`project_row_factors`."""
        weights = 1 if projection_weights is None else projection_weights
        return self._solved(False, sp_input, transpose_input, weights)[0]

    def _solved(
        self, of_rows: bool, matrix: Any, transposed: bool, weights: Any = None
    ) -> tuple[Any, Any, Any, Any, Any]:
        if not isinstance(matrix, tf.SparseTensor):
            raise ValueError(
                errors.message(f"sp_input={matrix!r}", "a SparseTensor", "tf.SparseTensor(indices, values, shape)")
            )
        own, other = (self._rows, self._columns) if of_rows else (self._columns, self._rows)
        own_copies, copies = (self._row_copies, self._col_copies) if of_rows else (self._col_copies, self._row_copies)
        other_factors, other_weights, gramian = copies
        across = transposed == of_rows  # whether what is solved for is numbered by the input's second index
        ids, places = [], []
        for axis in range(2):
            distinct, place = tf.unique(matrix.indices[:, axis])
            ids.append(distinct)
            places.append(tf.cast(place, tf.int64)[:, tf.newaxis])
        mine, theirs = (ids[1], ids[0]) if across else (ids[0], ids[1])
        counts = [tf.cast(tf.shape(each)[0], tf.int64) for each in ids]
        packed = tf.SparseTensor(tf.concat(places, 1), matrix.values, tf.stack(counts))
        count = counts[1] if across else counts[0]
        right = tf.nn.embedding_lookup(other_factors, theirs, partition_strategy="div")
        left_side = self._unobserved * gramian
        if self._ridge is not None:
            left_side += self._ridge
        their_weights = my_weights = None
        if own.weights is None:
            sums = self._unobserved * tf.sparse_tensor_dense_matmul(packed, right, adjoint_a=across)
            solved = tf.transpose(tf.matrix_solve(left_side, tf.transpose(sums)))
        else:
            my_weights = self._weights_of(own_copies[1], mine, weights)
            their_weights = tf.nn.embedding_lookup(other_weights, theirs, partition_strategy="div")
            part, sums = build(
                "WALSComputePartialLhsAndRhs",
                right,
                their_weights,
                self._unobserved,
                my_weights,
                packed.indices,
                packed.values,
                tf.zeros([0]),
                count,
                across,
                name="wals_compute_partial_lhs_rhs",
            )
            solved = tf.squeeze(tf.matrix_solve(left_side[tf.newaxis] + part, sums[:, :, tf.newaxis]), [2])
        update = _set_rows(own.factors, own.size, mine, solved, "row_update" if of_rows else "col_update")
        if across:
            packed = tf.sparse_transpose(packed)
        more = tf.cast(own.size, tf.float32) / tf.cast(count, tf.float32)
        found = build("MaskedMatmul", solved, right, packed.indices, False, True)
        missed = tf.square(packed.values - found)
        squares = tf.matmul(solved, solved, transpose_a=True)
        loss = self._unobserved * (
            tf.reduce_sum(missed) - tf.reduce_sum(tf.square(found)) + tf.trace(tf.matmul(squares, gramian))
        )
        total = self._unobserved * tf.cast(own.size * other.size, tf.float32)
        if my_weights is not None:
            each = tf.gather(my_weights, packed.indices[:, 0]) * tf.gather(their_weights, packed.indices[:, 1])
            loss += tf.reduce_sum(each * missed)
            total += tf.reduce_sum(each) * more
        penalty = tf.constant(0.0)
        if self._regularization is not None:
            penalty = self._regularization * (tf.trace(squares) * more + tf.trace(gramian))
        return solved, update, loss * more, penalty, total

    @staticmethod
    def _weights_of(held: Any, rows: Any, given: Any) -> Any:
        if given is None:
            return tf.nn.embedding_lookup(held, rows, partition_strategy="div")
        given = tf.cast(given, tf.float32)
        return tf.ones([tf.shape(rows)[0]]) * given
