"""Programs with control flow through the public interface, and what TensorFlow gives for them.

`python tools/golden/graphs/control_flow_programs.py tests/golden/control_flow_programs.json`, with an interpreter that
has TensorFlow (with control flow of version 1; a program that this refuses names version 2), records what each program
returns. A program takes `tf` and `run(fetches, feeds)`, which initialises variables before the first step; an error
counts by the name of its class.
"""

import json
import os
import sys

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
PROGRAMS = {}
SECOND = set()
"""Programs that are recorded with control flow of version 2."""


def program(function):
    """Registers a program that both versions of control flow of TensorFlow run."""
    PROGRAMS[function.__name__] = function
    return function


def program_of_version_2(function):
    """Registers a program that only the second version of control flow runs."""
    SECOND.add(function.__name__)
    return program(function)


def outcome(run, fetches, feeds):
    """What a step gives, or the name of its error."""
    try:
        return run(fetches, feeds)
    except Exception as problem:
        return type(problem).__name__


@program
def while_in_cond_in_while(tf, run):
    """A loop in a branch of a loop."""
    v, w = tf.Variable(1.0, use_resource=False), tf.Variable(2.0, use_resource=True)
    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])

    def body(i, a):
        def inner(j, b):
            with tf.control_dependencies([tf.assign_add(v, 1.0)]):
                return j + 1, b * x + tf.cast(j, tf.float32)

        def otherwise():
            with tf.control_dependencies([w.assign_add(a)]):
                return tf.sin(a) * x

        return i + 1, tf.cond(
            tf.equal(i % 2, 0), lambda: tf.while_loop(lambda j, b: j < i, inner, [tf.constant(0), a])[1], otherwise
        )

    y = tf.while_loop(lambda i, a: i < n, body, [tf.constant(0), x])[1]
    g = tf.gradients(y, x)[0]
    return [[run([y, g], {x: 0.7, n: k}), run([v, w])] for k in (0, 1, 3, 6)]


@program
def arrays_out_of_conditionals(tf, run):
    """Arrays of tensors that branches write to."""
    x = tf.placeholder(tf.float32, [3])

    def body(i, array, s):
        array = tf.cond(tf.equal(i, 1), lambda: array.write(i, s), lambda: array.write(i, s * 2.0))
        return i + 1, array, s * x[0]

    array = tf.TensorArray(tf.float32, 3, element_shape=[])
    y = tf.while_loop(lambda i, *_: i < 3, body, (tf.constant(0), array, x[1]))[1].stack()
    return run([y, tf.gradients(y, x)[0]], {x: [0.5, 1.5, 2.0]})


@program
def structures_through_map(tf, run):
    """`map_fn` over tuples and dicts, to other dtypes."""
    a, b = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])

    def each(item):
        k = item[1]["k"]
        return (item[0] * 2.0, k + 1), {"z": tf.cast(k, tf.float64), "s": tf.as_string(k)}

    dtypes = ((tf.float32, tf.int32), {"z": tf.float64, "s": tf.string})
    (doubled, more), rest = tf.map_fn(each, (a, {"k": b}), dtype=dtypes)
    gradient = tf.gradients(doubled, a)[0]
    return run([doubled, more, rest["z"], rest["s"], gradient], {a: [[1, 2], [3, 4], [5, 6]], b: [7, 8, 9]})


@program_of_version_2
def maps_in_maps(tf, run):
    """`map_fn` inside of `map_fn`."""
    a = tf.placeholder(tf.float32, [None, None])
    y = tf.map_fn(lambda row: tf.map_fn(lambda e: e * tf.reduce_sum(row), row), a)
    g = tf.gradients(y, a)[0]
    return run([y, g, tf.gradients(tf.reduce_sum(g * g), a)[0]], {a: [[1, 2, 3], [3, 4, 5]]})


@program_of_version_2
def second_gradient_through_an_array(tf, run):
    """A second gradient through a loop that writes an array."""
    x, n = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.int32, [])
    source = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x)

    def body(i, s, array):
        s = tf.sin(s * source.read(i % 3)) + s
        return i + 1, s, array.write(i, s * s)

    array = tf.TensorArray(tf.float32, n, element_shape=[])
    array = tf.while_loop(lambda i, *_: i < n, body, (tf.constant(0), tf.constant(0.3), array))[2]
    y = tf.reduce_sum(array.stack() * tf.cast(tf.range(n), tf.float32))
    g = tf.gradients(y, x)[0]
    return run([y, g, tf.gradients(tf.reduce_sum(g * g), x)[0]], {x: [0.5, 1.0, 2.0], n: 5})


@program
def scans(tf, run):
    """Scans and folds, forwards and backwards."""
    a = tf.placeholder(tf.float32, [None, 2])
    backwards = tf.scan(lambda total, e: total * 0.5 + e, a, reverse=True)
    first = (tf.zeros([2]), tf.ones([2]))
    pair = tf.scan(lambda s, e: (s[0] + e, tf.reduce_sum(s[1]) * e), a, initializer=first)
    chosen = tf.scan(lambda s, e: tf.cond(e > 0.0, lambda: s + e, lambda: s * e), a[:, 0] - 2.0, initializer=1.0)
    folded = tf.foldr(lambda s, e: s * e + 1.0, a[:, 1])
    ys = [backwards, *pair, chosen, folded]
    return run([*ys, tf.gradients(ys, a)[0]], {a: [[1.0, 2.0], [3.0, 4.0], [0.5, 0.6]]})


@program
def shapes_that_change(tf, run):
    """Loop variables whose shapes grow, under invariants."""
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    free = [tf.TensorShape([]), tf.TensorShape([None])]
    grown = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, tf.concat([a, a[:1] * a[-1:]], 0)), [tf.constant(0), x], free
    )[1]

    def parted(i, a):
        return i + 1, tf.concat([tf.boolean_mask(a, a > 1.0), tf.boolean_mask(a, a <= 1.0) * 2.0], 0)

    sorted_out = tf.while_loop(lambda i, a: i < n, parted, [tf.constant(0), x], free)[1]
    fetches = [grown, tf.gradients(grown, x)[0], sorted_out, tf.gradients(sorted_out, x)[0]]
    return [run(fetches, {x: [0.3, 2.0, 0.7], n: k}) for k in (0, 1, 4)]


@program
def limits(tf, run):
    """Loops with a bound on their iterations."""
    m, x = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [x], maximum_iterations=m)
    return [run([y, tf.gradients(y, x)[0]], {m: k, x: 1.5}) for k in (-1, 0, 3, 50)]


@program
def cases(tf, run):
    """Branches chosen by number and by condition."""
    x = tf.placeholder(tf.int32, [])
    pairs = [(x > 1, lambda: tf.constant(1)), (x > 3, lambda: tf.constant(2))]
    exclusive = tf.case(pairs, default=lambda: tf.constant(3), exclusive=True)
    open_end = tf.case(pairs)
    return [[outcome(run, y, {x: k}) for k in (0, 2, 5)] for y in (exclusive, open_end)]


@program
def effects_of_what_is_used(tf, run):
    """Which effects of a branch happen when only one of its results is used."""
    a, b, c = (tf.Variable(0, use_resource=False) for _ in range(3))
    p = tf.placeholder(tf.bool, [])
    done = tf.cond(p, lambda: [tf.assign(a, 1).op, tf.assign(b, 2).op], lambda: [tf.assign(c, 3).op, tf.no_op()])
    values = tf.cond(p, lambda: [tf.assign(a, 4), tf.assign(b, 5)], lambda: [tf.assign(c, 6), tf.constant(7)])
    steps = [(done[1], True), (done[0], False), (values[1], True), (values[0], False), (done, True)]
    return [[run(fetch, {p: holds}), run([a, b, c])] for fetch, holds in steps]


@program
def control_edges_from_outside(tf, run):
    """Control inputs from outside of a body."""
    v = tf.Variable(0.0, use_resource=False)
    p = tf.placeholder(tf.bool, [])
    count = tf.assign_add(v, 1.0)

    def waits():
        with tf.control_dependencies([count]):
            return tf.constant(1.0) + 0.0

    inside = tf.cond(p, waits, lambda: tf.constant(7.0))
    with tf.control_dependencies([tf.assign_add(v, 10.0)]):
        looped = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
    return [[run(inside, {p: holds}), run(v)] for holds in (True, False)], run(looped), run(v)


@program
def variables_that_are_fed(tf, run):
    """Values fed for variables that bodies read."""
    v, p = tf.Variable(2.0, use_resource=False), tf.placeholder(tf.bool, [])
    power = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * v), [tf.constant(0), tf.constant(1.0)])[1]
    chosen = tf.cond(p, lambda: v * 2.0, lambda: v + 1.0)
    fetches = [power, tf.gradients(power, v)[0], chosen]
    read = v.value()
    return [run(fetches, feeds) for feeds in ({v: 3.0, p: True}, {read: 4.0, p: False}, {p: True})]


@program
def queues_in_loops(tf, run):
    """Loops that take from queues and put into them."""
    source, sink = tf.FIFOQueue(9, tf.int32, [[]]), tf.FIFOQueue(9, tf.int32, [[]])

    def body(i, s):
        x = source.dequeue()
        with tf.control_dependencies([sink.enqueue(x * 10)]):
            return i + 1, s + x

    total = tf.while_loop(lambda i, s: i < 4, body, [tf.constant(0), tf.constant(0)])
    run(source.enqueue_many([[1, 2, 3, 4, 5]]))
    found = [run(total), run([source.size(), sink.size()]), run(sink.dequeue_many(4))]
    run(source.close())
    return [*found, outcome(run, total, {})]


@program
def checks_in_loops(tf, run):
    """Checks that fail in an iteration."""
    n = tf.placeholder(tf.int32, [])

    def body(i):
        with tf.control_dependencies([tf.Assert(i < 3, [i])]):
            return i + 1

    counted = tf.while_loop(lambda i: i < n, body, [tf.constant(0)])
    array = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack([1.0, 2.0, 3.0])
    summed = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, a + array.read(i)), [tf.constant(0), tf.constant(0.0)]
    )[1]
    return [[outcome(run, fetch, {n: k}) for k in (3, 5)] for fetch in (counted, summed)]


@program
def gradients_in_bodies(tf, run):
    """Gradients taken inside of bodies."""
    x = tf.placeholder(tf.float32, [2])
    y = tf.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a - 0.1 * tf.gradients(tf.reduce_sum(a**3), a)[0]),
        [tf.constant(0), x],
    )[1]
    z = x * x * tf.reduce_sum(x)
    jacobian = tf.map_fn(lambda i: tf.gradients(z[i], x)[0], tf.range(2), dtype=tf.float32)
    return run([y, tf.gradients(y, x)[0], jacobian], {x: [0.7, -0.3]})


@program
def rules_of_ones_own(tf, run):
    """Custom gradients inside of bodies."""

    @tf.custom_gradient
    def scaled(a):
        return tf.sin(a), lambda dy: dy * 10.0 * a

    x, p = tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
    looped = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, scaled(a) + x), [tf.constant(0), x])[1]
    chosen = tf.cond(p, lambda: scaled(x) * x, lambda: x)
    fetches = [looped, tf.gradients(looped, x)[0], chosen, tf.gradients(chosen, x)[0]]
    return [run(fetches, {x: 0.7, p: holds}) for holds in (True, False)]


@program
def rows_of_tables(tf, run):
    """Gradients of tables that bodies gather from."""
    table = tf.Variable(np.arange(12.0, dtype=np.float32).reshape(6, 2), use_resource=True)
    p, rows = tf.placeholder(tf.bool, []), tf.placeholder(tf.int32, [None])
    chosen = tf.cond(
        p, lambda: tf.reduce_sum(tf.gather(table, rows)), lambda: tf.reduce_sum(tf.gather(table, [0, 0, 5]) ** 2)
    )
    one = tf.cond(p, lambda: tf.reduce_sum(tf.gather(table, rows)), lambda: tf.constant(0.0))
    looped = tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, a * tf.reduce_sum(tf.gather(table, [i, i + 1]))),
        [tf.constant(0), tf.constant(1.0)],
    )[1]
    gradients = [tf.gradients(y, table)[0] for y in (chosen, one, looped)]
    dense = [tf.convert_to_tensor(g) for g in gradients]
    found = [run(dense, {p: holds, rows: [1, 1, 3]}) for holds in (True, False)]
    return [isinstance(g, tf.IndexedSlices) for g in gradients[:2]], found


@program
def composites_as_variables(tf, run):
    """Slices and sparse tensors as loop variables."""
    v = tf.placeholder(tf.float32, [2, 2])
    sparse = tf.sparse_placeholder(tf.float32)

    def body(k, s, t):
        grown = tf.SparseTensor(t.indices, t.values * 2.0 + tf.cast(k, tf.float32), t.dense_shape)
        return k + 1, tf.IndexedSlices(s.values * 2.0, s.indices + 1, s.dense_shape), grown

    slices = tf.IndexedSlices(v, tf.constant([0, 3]), tf.constant([5, 2]))
    _, s, t = tf.while_loop(lambda k, *_: k < 2, body, [tf.constant(0), slices, sparse])
    fetches = [s.values, s.indices, s.dense_shape, t.values, tf.gradients(s.values, v)[0]]
    fetches.append(tf.gradients(t.values, sparse.values)[0])
    return run(fetches, {v: [[1, 2], [3, 4]], sparse: tf.SparseTensorValue([[0, 1], [1, 0]], [1.0, 2.0], [2, 3])})


@program
def names(tf, run):
    """Names of the ops that loops and branches make."""
    found = []

    def body(i):
        a = i + 1
        with tf.name_scope("in"):
            b = tf.multiply(a, 1, name="b")
        found.extend([a.op.name, b.op.name])
        return b

    def branch():
        z = tf.add(1, 2, name="z")
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0), use_resource=False)
        found.extend([z.op.name, w.op.name])
        return z

    p = tf.placeholder(tf.bool, [])
    for _ in range(2):
        tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with tf.name_scope("outer"), tf.variable_scope("s"):
        tf.cond(p, branch, lambda: tf.constant(1))
    with tf.variable_scope("s", reuse=True):
        tf.cond(p, branch, lambda: tf.constant(1), name="mine")
    return found


def plain(value):
    """A result as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [value.dtype.name, plain(value.tolist())]
    if isinstance(value, np.generic):
        return [value.dtype.name, value.item()]
    return value.decode() if isinstance(value, bytes) else value


def results(tf, function, session):
    """What a program returns with a fresh graph and the session that `session()` makes."""
    with tf.Graph().as_default():
        made = []

        def run(fetches, feeds=None):
            if not made:
                made.append(session())
                if tf.global_variables():
                    made[0].run(tf.global_variables_initializer())
            return made[0].run(fetches, feeds)

        try:
            return plain(function(tf, run))
        finally:
            for item in made:
                item.close()


def record(path):
    """Writes what TensorFlow gives."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    found = {}
    for name, function in PROGRAMS.items():
        (tf.enable_control_flow_v2 if name in SECOND else tf.disable_control_flow_v2)()
        found[name] = results(tf, function, tf.Session)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=None, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    record(sys.argv[1])
