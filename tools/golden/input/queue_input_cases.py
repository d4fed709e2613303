"""Programs that feed a step by queues, and what they give, for TensorFlow and for Anabranch alike.

Each case is a function that builds a graph and returns what to fetch. All threads that fill queues end before the first
fetch, so that the results of seeded programs are the same each time. Beside the results, the nodes of each graph are
listed, with their seeds: a graph's seed and the number of nodes before a random one are what it draws from.
"""


def _names(tf, folder):
    """Names of files, in two orders."""
    tf.set_random_seed(5)
    names = tf.train.string_input_producer([c for c in "abcdefg"], num_epochs=3, seed=11)
    plain = tf.train.string_input_producer(tf.constant(["x", "y"]), num_epochs=2, shuffle=False, shared_name="plain")
    return {"names": names.dequeue(), "plain": plain.dequeue()}


def _graph_seed(tf, folder):
    """Orders that follow from the graph's seed."""
    tf.set_random_seed(7)
    numbers = tf.train.range_input_producer(6, num_epochs=2)
    rows = tf.train.slice_input_producer([tf.reshape(tf.range(12), [6, 2]), tf.range(6)], num_epochs=2)
    return {"numbers": numbers.dequeue(), "rows": rows[0], "labels": rows[1]}


def _rows_of_matrix(tf, folder):
    rows = tf.train.input_producer([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], num_epochs=1, shuffle=False, summary_name="f")
    return {"row": rows.dequeue_many(2)}


def _batches(tf, folder):
    x, y = tf.train.slice_input_producer([tf.range(7), tf.range(7) * 10], num_epochs=1, shuffle=False)
    whole = tf.train.batch([x, y], 3, capacity=50)
    return {"x": whole[0], "y": whole[1]}


def _smaller_final_batch(tf, folder):
    x = tf.train.range_input_producer(7, num_epochs=1, shuffle=False).dequeue()
    return {"x": tf.train.batch({"one": x}, 3, capacity=50, allow_smaller_final_batch=True)["one"]}


def _many(tf, folder):
    x = tf.train.input_producer(tf.reshape(tf.range(12), [4, 3]), num_epochs=1, shuffle=False).dequeue()
    return {"x": tf.train.batch([x], 5, capacity=50, enqueue_many=True, allow_smaller_final_batch=True)}


def _padded(tf, folder):
    n = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    parts = {"n": n, "row": tf.range(n), "text": tf.fill([n, 1], "t"), "half": tf.ones([2, n])}
    return tf.train.batch(parts, 2, capacity=50, dynamic_pad=True, allow_smaller_final_batch=True)


def _shuffled(tf, folder):
    tf.set_random_seed(3)
    x = tf.train.range_input_producer(20, num_epochs=1, shuffle=False).dequeue()
    return {"x": tf.train.shuffle_batch([x], 6, 100, 10, seed=13, allow_smaller_final_batch=True)}


def _shuffled_by_graph_seed(tf, folder):
    tf.set_random_seed(3)
    x = tf.train.range_input_producer(20, num_epochs=1).dequeue()
    return {"x": tf.train.shuffle_batch([x], 5, 100, 10)}


def _sparse(tf, folder):
    n = tf.cast(tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue(), tf.int64)
    row = tf.SparseTensor(tf.reshape(tf.range(n), [-1, 1]), tf.range(n) * 2, [n + 1])
    sparse, dense = tf.train.batch([row, n], 2, capacity=50)
    return {"indices": sparse.indices, "values": sparse.values, "shape": sparse.dense_shape, "dense": dense}


def _kept(tf, folder):
    x = tf.train.input_producer(tf.reshape(tf.range(24), [4, 6]), num_epochs=1, shuffle=False).dequeue()
    sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 3], [5, 1]], ["a", "b", "c", "d"], [6, 4])
    kept, parts = tf.train.maybe_batch(
        [x, sparse], tf.equal(x % 2, 0), 4, capacity=50, enqueue_many=True, allow_smaller_final_batch=True
    )
    return {"x": kept, "indices": parts.indices, "values": parts.values, "shape": parts.dense_shape}


def _lines(tf, folder):
    """A whole pipeline: names, lines, columns, batches."""
    for name in ("1.csv", "2.csv"):
        with open(folder + "/" + name, "w") as file:
            file.write("".join(f"{name[0]},{i / 2}\n" for i in range(5)))
    names = tf.train.string_input_producer([folder + "/1.csv", folder + "/2.csv"], num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(names)
    columns = tf.decode_csv(line, [[0], [0.0]])
    x, y = tf.train.batch(columns, 4, capacity=50, allow_smaller_final_batch=True)
    return {"x": x, "y": y}


def _records(tf, folder):
    path = folder + "/records"
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(6):
            example = tf.train.Example()
            example.features.feature["n"].int64_list.value.append(i)
            writer.write(example.SerializeToString())
    names = tf.train.string_input_producer([path], num_epochs=2)
    _, record = tf.TFRecordReader().read(names)
    n = tf.parse_single_example(record, {"n": tf.FixedLenFeature([], tf.int64)})["n"]
    return {"n": tf.train.shuffle_batch([n], 4, 50, 0, seed=1)}


CASES = {
    "names": _names,
    "graph seed": _graph_seed,
    "rows of a matrix": _rows_of_matrix,
    "batches": _batches,
    "smaller final batch": _smaller_final_batch,
    "many at a time": _many,
    "padded": _padded,
    "shuffled": _shuffled,
    "shuffled by the graph's seed": _shuffled_by_graph_seed,
    "sparse": _sparse,
    "kept": _kept,
    "lines": _lines,
    "records": _records,
}
OWN_NODES = ("kept", "sparse", "padded", "records", "lines")
"""Cases whose nodes are not listed: they hold functions of other families, which may be built otherwise."""


def _plain(value):
    """A value as JSON has it."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def run(tf, case, folder):
    """Results by name, step after step until the queues are empty, and the nodes of the graph."""
    with tf.Graph().as_default() as graph:
        fetches = CASES[case](tf, folder)
        nodes = [
            " ".join([node.name, node.op] + [str(node.attr[key].i) for key in ("seed", "seed2") if key in node.attr])
            for node in graph.as_graph_def().node
        ]
        initializer = tf.local_variables_initializer()
        with tf.Session() as session:
            session.run(initializer)
            for thread in tf.train.start_queue_runners(session):
                thread.join()
            steps = []
            while True:
                try:
                    steps.append({name: _plain(value) for name, value in sorted(session.run(fetches).items())})
                except tf.errors.OutOfRangeError:
                    break
    return {"steps": steps, "nodes": [] if case in OWN_NODES else nodes}
