"""Record graphs with control flow of version 1 as TensorFlow writes them, and what they give.

Run with an interpreter that has TensorFlow: `python tools/golden/graphs/v1_control_flow.py
tests/golden/v1_control_flow`. A case is a program that uses `tf` (with control flow and variables of version 1), `np`,
`run(fetches, feeds)`, which records one step, and `values(shape)`, floats that are the same each time. Written are, for
each case, the graph as `<case>.pb` (a MetaGraphDef, whose collections hold the contexts) and, in `steps.json`, its
steps: names of fetches and operations, feeds, results. Dtypes stand beside values.
"""

import json
import os
import sys
import textwrap

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

CASES = {
    "cond": """
        p, x = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.float32, [2], name="x")
        y = tf.cond(p, lambda: x * 2.0 + 1.0, lambda: tf.sin(x))
        g = tf.gradients(y, x)[0]
        for value in (True, False):
            run([y], {p: value, x: values([2])})
            run([g, y], {p: value, x: values([2])})
    """,
    "cond_constant": """
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.cond(tf.constant(False), lambda: tf.log(x), lambda: tf.exp(x))
        z = tf.cond(tf.logical_not(tf.constant(False)), lambda: y * 2.0, lambda: x / 0.0)
        run([y, z], {x: values([2])})
        run([tf.gradients(z, x)[0]], {x: values([2])})
    """,
    "cond_nested": """
        p, q = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.bool, [], name="q")
        x = tf.placeholder(tf.float32, [3], name="x")
        y = x + 1.0
        z = tf.cond(p, lambda: tf.cond(q, lambda: x * y, lambda: y * 3.0) + x,
                    lambda: tf.cond(q, lambda: x - y * y, lambda: tf.reduce_sum(x) * y))
        g = tf.gradients(z, [x, y])
        h = tf.gradients(g[0], x)
        for a in (True, False):
            for b in (True, False):
                run([z], {p: a, q: b, x: values([3])})
                run([z, *g], {p: a, q: b, x: values([3])})
    """,
    "cond_chain": """
        p = tf.placeholder(tf.bool, [], name="p")
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        w = [tf.constant(values([2, 2]), name="w%d" % i) for i in range(3)]
        y = x
        for i in range(3):
            y = tf.cond(p, lambda: tf.matmul(y, w[i]), lambda: tf.tanh(y) * w[i]) + x
        g = tf.gradients(y, [x, *w])
        for a in (True, False):
            run([y, *g], {p: a, x: values([2, 2])})
    """,
    "cond_effects": """
        p = tf.placeholder(tf.bool, [], name="p")
        v = tf.Variable(1.0, name="v", use_resource=False)
        r = tf.Variable(10.0, name="r", use_resource=True)
        def yes():
            with tf.control_dependencies([tf.assign_add(v, 1.0), r.assign_add(5.0)]):
                return tf.identity(v) * 2.0
        y = tf.cond(p, yes, lambda: tf.assign(v, -v))
        run([tf.global_variables_initializer()], {})
        for a in (True, False, False, True):
            run([y], {p: a})
            run([v, r], {})
    """,
    "cond_outputs": """
        p = tf.placeholder(tf.bool, [], name="p")
        x = tf.placeholder(tf.float32, [None], name="x")
        a, (b, c) = tf.cond(p, lambda: (x[:1], (tf.size(x), x)), lambda: (x, (7, x[1:])))
        run([a, b, c], {p: True, x: values([4])})
        run([a, b, c], {p: False, x: values([4])})
        run([c], {p: False, x: values([2])})
    """,
    "case": """
        i = tf.placeholder(tf.int32, [], name="i")
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.case([(tf.equal(i, 0), lambda: x), (tf.equal(i, 1), lambda: x * x), (tf.equal(i, 2), lambda: -x)],
                    default=lambda: x + 100.0, exclusive=True)
        g = tf.gradients(y, x)[0]
        for k in range(4):
            run([y, g], {i: k, x: values([2])})
    """,
    "while": """
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [2], name="x")
        i, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x + tf.sin(y)), [0, x])
        g = tf.gradients(y, x)[0]
        for count in (0, 1, 5):
            run([i, y], {n: count, x: values([2])})
            run([y, g], {n: count, x: values([2])})
    """,
    "while_limit": """
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [], name="x")
        y = tf.while_loop(lambda y: tf.less(y, 100.0), lambda y: y * x, [x], maximum_iterations=n)
        g = tf.gradients(y, x)[0]
        for count in (0, 3, 50):
            run([y, g], {n: count, x: 1.5})
    """,
    "while_shapes": """
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [1, 2], name="x")
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.concat([y, y * x], 0)), [0, x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])])
        g = tf.gradients(tf.reduce_sum(y * y), x)[0]
        for count in (0, 1, 3):
            run([y], {n: count, x: values([1, 2])})
            run([g], {n: count, x: values([1, 2])})
    """,
    "while_nested": """
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [2], name="x")
        def outer(i, y):
            _, z = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x + tf.cos(y)), [0, y])
            return i + 1, z + y
        _, y = tf.while_loop(lambda i, y: i < n, outer, [0, x])
        g = tf.gradients(y, x)[0]
        for count in (0, 1, 4):
            run([y], {n: count, x: values([2])})
            run([y, g], {n: count, x: values([2])})
    """,
    "while_in_cond": """
        p, n = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.int32, [], name="n")
        x = tf.placeholder(tf.float32, [2], name="x")
        loop = lambda: tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [0, x])[1]
        y = tf.cond(p, loop, lambda: x - 1.0)
        g = tf.gradients(y, x)[0]
        for a in (True, False):
            for count in (0, 3):
                run([y], {p: a, n: count, x: values([2])})
                run([y, g], {p: a, n: count, x: values([2])})
    """,
    "cond_in_while": """
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [2], name="x")
        def body(i, y):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: tf.sin(y) + tf.cond(
                i > 2, lambda: x, lambda: y * 0.5))
        _, y = tf.while_loop(lambda i, y: i < n, body, [0, x])
        g = tf.gradients(y, x)[0]
        for count in (0, 1, 5):
            run([y], {n: count, x: values([2])})
            run([y, g], {n: count, x: values([2])})
    """,
    "while_effects": """
        n = tf.placeholder(tf.int32, [], name="n")
        v = tf.Variable(1.0, name="v", use_resource=False)
        def body(i, total):
            with tf.control_dependencies([tf.assign(v, v * 2.0)]):
                return i + 1, total + tf.identity(v)
        _, total = tf.while_loop(lambda i, t: i < n, body, [0, 0.0], parallel_iterations=1)
        run([tf.global_variables_initializer()], {})
        for count in (0, 3, 2):
            run([total], {n: count})
            run([v], {})
    """,
    "arrays": """
        n, x = tf.placeholder(tf.int32, [], name="n"), tf.placeholder(tf.float32, [None, 2], name="x")
        source = tf.TensorArray(tf.float32, n, clear_after_read=False).unstack(x)
        target = tf.TensorArray(tf.float32, n)
        def body(i, target, state):
            state = tf.tanh(state * 0.5 + source.read(i) * source.read(0))
            return i + 1, target.write(i, state), state
        _, target, last = tf.while_loop(lambda i, *rest: i < n, body, [0, target, x[0]])
        y = target.stack()
        g = tf.gradients(tf.reduce_sum(y * y) + tf.reduce_sum(last), x)[0]
        for count in (1, 4):
            run([y, last, target.size()], {n: count, x: values([count, 2])})
            run([y, g], {n: count, x: values([count, 2])})
    """,
    "arrays_joined": """
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        lengths = tf.placeholder(tf.int64, [None], name="lengths")
        parts = tf.TensorArray(tf.float32, tf.size(lengths), infer_shape=False).split(x, lengths)
        doubled = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)
        count = tf.size(lengths)
        _, doubled = tf.while_loop(lambda i, _: i < count,
                                   lambda i, a: (i + 1, a.write(i, parts.read(i) * tf.cast(i + 1, tf.float32))),
                                   [0, doubled])
        y = doubled.concat()
        g = tf.gradients(y * y, x)[0]
        run([y], {x: values([5, 2]), lengths: [2, 0, 3]})
        run([y, g], {x: values([5, 2]), lengths: [2, 1, 2]})
    """,
    "arrays_inside": """
        p, n = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.int32, [], name="n")
        x = tf.placeholder(tf.float32, [2], name="x")
        def rows(y):
            _, found = tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, tf.sin(y) * x)),
                                     [0, tf.TensorArray(tf.float32, n, element_shape=[2])])
            return tf.reduce_sum(found.stack(), 0)
        y = tf.cond(p, lambda: rows(x), lambda: x * 2.0)
        _, z = tf.while_loop(lambda i, _: i < 2, lambda i, z: (i + 1, 0.5 * rows(z)), [0, y])
        g = tf.gradients(z, x)[0]
        for a in (True, False):
            for count in (0, 3):
                run([z, g], {p: a, n: count, x: values([2])})
    """,
    "array_straight": """
        x = tf.placeholder(tf.float32, [3], name="x")
        a = tf.TensorArray(tf.float32, 3, clear_after_read=False)
        a = a.write(0, x).write(2, x * 2.0).write(1, tf.sin(x))
        y = a.stack() + a.read(1) * a.gather([2, 0])[1]
        g = tf.gradients(y, x)[0]
        run([y, g, a.size()], {x: values([3])})
    """,
    "map_scan": """
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        m = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)
        s = tf.scan(lambda a, row: a * 0.5 + row * row, x)
        f = tf.foldl(lambda a, row: a * row + 1.0, x)
        g = tf.gradients(tf.reduce_sum(m * m) + tf.reduce_sum(s) + tf.reduce_sum(f), x)[0]
        run([m, s, f], {x: values([4, 2])})
        run([m, s, f, g], {x: values([3, 2])})
    """,
    "recurrent": """
        x = tf.placeholder(tf.float32, [None, 3, 2], name="x")
        lengths = tf.placeholder(tf.int32, [3], name="lengths")
        w = tf.get_variable("w", initializer=np.array(values([6, 4]), np.float32), use_resource=False)
        steps = tf.shape(x)[0]
        inputs = tf.TensorArray(tf.float32, steps).unstack(x)
        outputs = tf.TensorArray(tf.float32, steps)
        def body(t, outputs, state):
            new = tf.tanh(tf.matmul(tf.concat([inputs.read(t), state], 1), w))
            done = tf.greater_equal(t, lengths)
            out = tf.where(done, tf.zeros_like(new), new)
            state = tf.cond(t < tf.reduce_min(lengths), lambda: new, lambda: tf.where(done, state, new))
            return t + 1, outputs.write(t, out), state
        _, outputs, state = tf.while_loop(lambda t, *_: t < steps, body, [0, outputs, tf.zeros([3, 4])])
        loss = tf.reduce_sum(outputs.stack() ** 2) + tf.reduce_sum(state)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        run([tf.global_variables_initializer()], {})
        for count in (3, 5, 3):
            run([loss, train], {x: values([count, 3, 2]), lengths: [1, 3, 2]})
        run([w], {})
    """,
    "gathered": """
        table = tf.get_variable("table", initializer=np.array(values([4, 2]), np.float32), use_resource=False)
        ids = tf.placeholder(tf.int32, [None], name="ids")
        def body(i, total):
            return i + 1, total + tf.reduce_sum(tf.square(tf.gather(table, ids[i])))
        _, total = tf.while_loop(lambda i, _: i < tf.size(ids), body, [0, 0.0])
        train = tf.train.GradientDescentOptimizer(0.1).minimize(total)
        run([tf.global_variables_initializer()], {})
        for chosen in ([1, 1, 3], [0], [2, 1]):
            run([total, train], {ids: chosen})
        run([table], {})
    """,
    "batch_norm": """
        training = tf.placeholder(tf.bool, [], name="training")
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        y = x
        for i in range(2):
            with tf.variable_scope("layer%d" % i, use_resource=False):
                w = tf.get_variable("w", initializer=np.array(values([3, 3]), np.float32))
                mean = tf.get_variable("mean", initializer=np.zeros(3, np.float32), trainable=False)
                y = tf.matmul(y, w)
                def learn():
                    batch = tf.reduce_mean(y, 0)
                    with tf.control_dependencies([tf.assign_sub(mean, (mean - batch) * 0.1)]):
                        return tf.identity(batch)
                y = y - tf.cond(training, learn, lambda: tf.identity(mean))
                y = tf.cond(training, lambda: y * tf.constant([1.0, 0.0, 2.0]), lambda: y)
        loss = tf.reduce_sum(y ** 2)
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        run([tf.global_variables_initializer()], {})
        for _ in range(2):
            run([loss, train], {training: True, x: values([4, 3])})
        run([y, loss], {training: False, x: values([4, 3])})
        run(tf.global_variables(), {})
    """,
    "switches": """
        from tensorflow.python.ops import control_flow_ops as flow
        p, q = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.bool, [], name="q")
        x = tf.placeholder(tf.float32, [], name="x")
        a = flow.switch(x, p)
        b = flow.switch(a[1] + 1.0, q)
        m = flow.merge([a[0] * 10.0, b[0] * 100.0, b[1] * 1000.0])
        for s in (True, False):
            for t in (True, False):
                run([m.output, m.value_index], {p: s, q: t, x: 2.5})
    """,
    "pieces": """
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        parts = tf.TensorArray(tf.float32, 3, infer_shape=False).split(x, [1, 3, 2])

        def body(i, made):
            return i + 1, made.write(i, parts.read(i) * tf.cast(i + 1, tf.float32))

        _, made = tf.while_loop(
            lambda i, _: i < 3, body, (tf.constant(0), tf.TensorArray(tf.float32, 3, infer_shape=False))
        )
        y = made.concat()
        run([y, tf.gradients(y * y, x)[0]], {x: values([6, 2])})
    """,
    "slices_and_sparse": """
        v = tf.placeholder(tf.float32, [2, 2], name="v")
        s = tf.IndexedSlices(v, tf.constant([0, 3]), tf.constant([5, 2]))
        indices = tf.placeholder(tf.int64, [None, 2], name="indices")
        t = tf.SparseTensor(indices, v[0], tf.constant([2, 3], tf.int64))

        def body(i, s, t):
            grown = tf.SparseTensor(t.indices, t.values * 2.0 + tf.cast(i, tf.float32), t.dense_shape)
            return i + 1, tf.IndexedSlices(s.values * 2.0, s.indices + 1, s.dense_shape), grown

        _, s, t = tf.while_loop(lambda i, *_: i < 3, body, [tf.constant(0), s, t])
        fetches = [s.values, s.indices, s.dense_shape, t.indices, t.values]
        fetches.append(tf.gradients([s.values, t.values], v)[0])
        run(fetches, {v: values([2, 2]), indices: [[0, 1], [1, 0]]})
    """,
    "rank_not_known": """
        x = tf.placeholder(tf.float32, None, name="x")
        _, y, word = tf.while_loop(
            lambda i, *_: i < 2,
            lambda i, a, s: (i + 1, tf.expand_dims(a, 0) * 2.0, tf.string_join([s, tf.as_string(i)])),
            [tf.constant(0), x, tf.constant("a")],
            [tf.TensorShape([]), tf.TensorShape(None), tf.TensorShape([])],
        )
        length = tf.size(tf.string_split([word], "").values)
        for shape in ([2], [1, 3]):
            run([y, tf.gradients(y, x)[0], length], {x: values(shape)})
    """,
    "rows_of_a_branch": """
        p = tf.placeholder(tf.bool, [], name="p")
        table, rows = tf.placeholder(tf.float32, [6, 2], name="table"), tf.placeholder(tf.int32, [None], name="rows")
        y = tf.cond(p, lambda: tf.reduce_sum(tf.gather(table, rows) ** 2),
                    lambda: tf.reduce_sum(tf.gather(table, [0, 0, 5])))
        g = tf.convert_to_tensor(tf.gradients(y, table)[0])
        for value in (True, False):
            run([y, g], {p: value, table: values([6, 2]), rows: [1, 1, 3]})
    """,
    "effects_of_results": """
        p = tf.placeholder(tf.bool, [], name="p")
        a, b, c = (tf.Variable(0, name=name, use_resource=False) for name in "abc")
        done = tf.cond(p, lambda: [tf.assign(a, 1).op, tf.assign(b, 2).op], lambda: [tf.assign(c, 3).op, tf.no_op()])
        run([tf.global_variables_initializer()], {})
        run([done[1]], {p: True})
        run([a, b, c], {})
        run([done[0]], {p: False})
        run([a, b, c], {})
        run(done, {p: True})
        run([a, b, c], {})
    """,
}


def record(folder: str) -> None:
    """Writes the graphs and the file of steps."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()

    def written(value):
        array = np.asarray(value)
        return {"dtype": array.dtype.name, "shape": list(array.shape), "values": array.ravel().tolist()}

    found = {}
    for name, program in CASES.items():
        steps = []
        random = np.random.RandomState(7)
        graph = tf.Graph()
        with graph.as_default(), tf.Session() as session:

            def values(shape, random=random):
                return np.round(random.uniform(-1, 1, shape), 2).astype(np.float32)

            def run(fetches, feeds, session=session, steps=steps):
                results = session.run(fetches, feeds)
                steps.append(
                    {
                        "fetches": [getattr(item, "_graph_element", item).name for item in fetches],
                        "feeds": {
                            key.name: written(np.asarray(value, key.dtype.as_numpy_dtype))
                            for key, value in feeds.items()
                        },
                        "results": [None if value is None else written(value) for value in results],
                    }
                )

            exec(textwrap.dedent(program), {"tf": tf, "np": np, "run": run, "values": values})
            meta = tf.train.export_meta_graph(graph=graph)
            meta.meta_info_def.Clear()
            meta.graph_def.library.Clear()
            for node in meta.graph_def.node:
                if "_XlaCompile" in node.attr:
                    del node.attr["_XlaCompile"]
        with open(os.path.join(folder, name + ".pb"), "wb") as file:
            file.write(meta.SerializeToString(deterministic=True))
        found[name] = steps
    with open(os.path.join(folder, "steps.json"), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=None, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    record(sys.argv[1])
