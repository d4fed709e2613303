"""Graphs with iterators whose MetaGraphs and results `tools/golden/input/iterator_graphs.py` notes from TensorFlow
1.15.

Each function builds a graph with `tf` and returns steps: what is fetched by name, and what is fed. A fed text that
begins with `@` is the last result of the tensor that it names. The same function builds the graph with Anabranch.
"""

import numpy as np


def _named(tf, value, name):
    return tf.identity(value, name=name)


def conditional(tf):
    """Two iterators, one of which a conditional asks."""
    first, second = (tf.data.Dataset.range(k, k + 5).make_initializable_iterator() for k in (0, 100))
    choice = tf.placeholder(tf.bool, [], "choice")
    _named(tf, tf.cond(choice, first.get_next, second.get_next), "x")
    tf.group(first.initializer, second.initializer, name="begin")
    return [(["begin"], {})] + [(["x:0"], {"choice:0": flag}) for flag in (True, False, False, True, True)]


def one_shot(tf):
    """A one-shot iterator outside a conditional, and one that is made inside."""
    outside = tf.data.Dataset.range(9).map(lambda x: x * x).make_one_shot_iterator()
    choice = tf.placeholder(tf.bool, [], "choice")
    _named(tf, tf.cond(choice, outside.get_next, lambda: tf.constant(-1, tf.int64)), "x")
    made = tf.cond(
        choice,
        lambda: tf.data.Dataset.range(3, 9).make_one_shot_iterator().get_next(),
        lambda: tf.constant(-1, tf.int64),
    )
    _named(tf, made, "y")
    return [(["x:0", "y:0"], {"choice:0": flag}) for flag in (True, False, True, True)]


def choices(tf):
    """A case over three iterators."""
    iterators = [tf.data.Dataset.range(10 * k, 10 * k + 5).make_one_shot_iterator() for k in range(3)]
    which = tf.placeholder(tf.int32, [], "which")
    pairs = [(tf.equal(which, k), iterators[k].get_next) for k in range(2)]
    _named(tf, tf.case(pairs, default=iterators[2].get_next), "x")
    return [(["x:0"], {"which:0": k}) for k in (0, 1, 2, 2, 0)]


def loop(tf):
    """A loop whose body takes an element in each turn, and fails at the end."""
    iterator = tf.data.Dataset.range(10).make_initializable_iterator()
    tf.group(iterator.initializer, name="begin")
    _, total = tf.while_loop(
        lambda i, t: i < 4, lambda i, t: (i + 1, t + iterator.get_next()), (0, tf.constant(0, tf.int64))
    )
    _named(tf, total, "x")
    return [(["begin"], {})] + [(["x:0"], {})] * 3 + [(["begin"], {}), (["x:0"], {})]


def trained_loop(tf):
    """A loop that adds batches to a variable, and a gradient through elements taken in a loop."""
    rows = np.arange(12, dtype=np.float32)
    iterator = tf.data.Dataset.from_tensor_slices(rows).repeat().batch(3).make_initializable_iterator()
    weight = tf.get_variable("w", [], initializer=tf.ones_initializer())

    def body(i, total):
        return i + 1, total + weight * tf.reduce_sum(iterator.get_next())

    _, total = tf.while_loop(lambda i, t: i < 3, body, (0, 0.0))
    _named(tf, total, "x")
    _named(tf, tf.gradients(total, weight)[0], "gradient")
    tf.group(iterator.initializer, tf.global_variables_initializer(), name="begin")
    return [(["begin"], {})] + [(["x:0", "gradient:0"], {})] * 2


def handles(tf):
    """An iterator that a fed string names, in a loop and in a conditional."""
    first = tf.data.Dataset.range(20).make_initializable_iterator()
    second = tf.data.Dataset.range(100, 120).make_one_shot_iterator()
    handle = tf.placeholder(tf.string, [], "handle")
    choice = tf.placeholder_with_default(True, [], "choice")
    iterator = tf.data.Iterator.from_string_handle(handle, tf.int64, [])
    _named(tf, iterator.get_next(), "plain")
    _, total = tf.while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t + iterator.get_next()), (0, tf.constant(0, tf.int64))
    )
    _named(tf, total, "looped")
    _named(tf, tf.cond(choice, iterator.get_next, lambda: tf.constant(-1, tf.int64)), "chosen")
    tf.group(first.initializer, name="begin")
    _named(tf, first.string_handle(), "first")
    _named(tf, second.string_handle(), "second")
    steps = [(["begin"], {}), (["first:0"], {}), (["second:0"], {})]
    for name in ("@first:0", "@second:0", "@first:0"):
        steps += [(["plain:0"], {"handle:0": name}), (["looped:0"], {"handle:0": name})]
        steps += [(["chosen:0"], {"handle:0": name, "choice:0": flag}) for flag in (True, False)]
    return steps


def structures(tf):
    """An iterator of a structure that goes through two datasets, also one that a conditional makes it begin."""
    iterator = tf.data.Iterator.from_structure(
        {"n": tf.int64, "s": tf.string}, {"n": [], "s": [None]}, output_classes={"n": tf.Tensor, "s": tf.Tensor}
    )
    first = tf.data.Dataset.range(4).map(lambda n: {"n": n, "s": tf.fill([n], "a")})
    second = tf.data.Dataset.range(7, 9).map(lambda n: {"n": n, "s": tf.as_string(tf.range(n))})
    tf.group(iterator.make_initializer(first), name="init_first")
    tf.group(iterator.make_initializer(second), name="init_second")
    element = iterator.get_next()
    _named(tf, element["n"], "n")
    _named(tf, element["s"], "s")
    fetches = ["n:0", "s:0"]
    steps = [(["init_first"], {}), (fetches, {}), (fetches, {}), (["init_second"], {})]
    return steps + [(fetches, {})] * 3 + [(["init_first"], {}), (fetches, {})]


def functions(tf):
    """Functions in functions: conditionals and loops in maps, datasets in datasets, captured variables and tables."""
    offset = tf.get_variable("offset", [], tf.int64, tf.constant_initializer(100), use_resource=True)
    table = tf.contrib.lookup.index_table_from_tensor(["a", "b", "c"]) if hasattr(tf, "contrib") else None
    dataset = (
        tf.data.Dataset.range(6)
        .map(lambda x: tf.cond(x > 2, lambda: x * 10, lambda: -x))
        .filter(lambda x: tf.not_equal(x, -1))
    )
    dataset = dataset.flat_map(
        lambda x: tf.data.Dataset.range(2).map(
            lambda y: tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + x + y), (0, tf.constant(0, tf.int64)))[
                1
            ]
        )
    )
    dataset = dataset.map(lambda x: x + offset).shuffle(4, seed=7).batch(3)
    iterator = dataset.make_initializable_iterator()
    _named(tf, iterator.get_next(), "x")
    tf.group(iterator.initializer, tf.global_variables_initializer(), name="begin")
    steps = [(["begin"], {})] + [(["x:0"], {})] * 5
    if table is not None:
        words = tf.data.Dataset.from_tensor_slices([["b", "z"], ["c", "a"]]).map(table.lookup)
        second = words.make_initializable_iterator()
        _named(tf, second.get_next(), "ids")
        tf.group(tf.tables_initializer(), name="tables")
        tf.group(second.initializer, name="init_words")
        steps += [(["tables"], {}), (["init_words"], {}), (["ids:0"], {}), (["ids:0"], {})]
    return steps


def groups(tf):
    """Groups, windows, padded batches, interleaved and sparse elements."""
    dataset = tf.data.Dataset.range(14).map(lambda n: tf.fill([n * 5 % 4], n))
    dataset = dataset.apply(
        tf.data.experimental.group_by_window(
            lambda x: tf.cast(tf.size(x), tf.int64), lambda k, w: w.padded_batch(3, [None]), window_size=3
        )
    )
    iterator = dataset.make_initializable_iterator()
    _named(tf, iterator.get_next(), "groups")
    other = tf.data.Dataset.range(5).interleave(lambda n: tf.data.Dataset.from_tensors(n).repeat(3), 2, 2).window(4, 3)
    other = other.flat_map(lambda w: w.batch(9)).make_initializable_iterator()
    _named(tf, other.get_next(), "windows")
    sparse = tf.data.Dataset.range(3).map(lambda i: tf.SparseTensor([[i]], tf.reshape(i, [1]), [5])).batch(2)
    sparse = sparse.make_initializable_iterator()
    _named(tf, tf.sparse.to_dense(sparse.get_next()), "sparse")
    tf.group(iterator.initializer, other.initializer, sparse.initializer, name="begin")
    fetches = ["groups:0", "windows:0", "sparse:0"]
    return [(["begin"], {})] + [(fetches, {})] * 2 + [([name], {}) for name in fetches]


CASES = (conditional, one_shot, choices, loop, trained_loop, handles, structures, functions, groups)
