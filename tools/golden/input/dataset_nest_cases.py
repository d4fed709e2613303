"""Stages over nested structures, and over an input that fails, for `tools/golden/input/datasets.py`: see
`dataset_cases.py`.

Each stage stands behind each structure, as an expression of `d`. What TensorFlow refuses, too, is noted: as the class
of the error. Behind stages over a failing input come `ignore_errors` and what there is still to come.
"""

STRUCTURES = {
    "dict": "D.range(9).map(lambda i: {'b': i, 'a': {'d': tf.as_string(i), 'c': tf.fill([2], i)}})",
    "tuple": "D.range(9).map(lambda i: ((i, tf.cast(i, tf.float32) / 2.0), tf.as_string(i)))",
    "named": "D.range(9).map(lambda i: P(tf.as_string(i), P(i, tf.equal(i % 2, 0))))",
    "sparse": "D.range(9).map(lambda i: {'s': tf.SparseTensor([[i % 4]], tf.reshape(i, [1]), [4]), 'i': i})",
    "ragged_strings": "D.range(9).map(lambda i: (tf.fill([i % 3], tf.as_string(i)), i))",
    "datasets": "D.range(9).window(2)",
    "dataset_dicts": "D.range(9).map(lambda i: {'x': i, 'y': -i}).window(2)",
    "optionals": "D.range(9).map(lambda i: tf.data.experimental.Optional.from_value({'v': i, 's': tf.as_string(i)}))",
}
# Of an element, as functions get it, what can be fetched.
SHOWN = {
    "datasets": ".flat_map(lambda w: w.batch(9))",
    "dataset_dicts": ".flat_map(lambda w: D.zip((w['y'], w['x'])).batch(9))",
    "optionals": ".map(lambda o: (o.has_value(), o.get_value()))",
}
NUMBER = {  # an int64 of an element `e`, the arguments of a function
    "dict": "e[0]['b']",
    "tuple": "e[0][0]",
    "named": "e[0].right.left",
    "sparse": "e[0]['i']",
    "ragged_strings": "e[1]",
    "optionals": "e[0].get_value()['v']",
    "datasets": "e[0].reduce(np.int64(0), lambda s, x: s + x)",
    "dataset_dicts": "e[0]['x'].reduce(np.int64(0), lambda s, x: s + x)",
}
WHOLE = "(e[0] if len(e) == 1 else e)"
SAME = {  # stages whose elements are of the structure of the input
    "shuffle": "d.shuffle(4, seed=5).repeat(2)",
    "shuffle_and_repeat": "d.apply(tf.data.experimental.shuffle_and_repeat(4, 2, seed=5))",
    "selections": "d.skip(1).shard(2, 1).take(3).repeat(2)",
    "concatenate": "d.take(2).concatenate(d.skip(7))",
    "cache": "d.cache().repeat(2)",
    "prefetch": "d.prefetch(3)",
    "filter": "d.filter(lambda *e: tf.equal(NUMBER % 3, 1))",
    "map_same": "d.map(lambda *e: WHOLE)",
    "map_parallel": "d.map(lambda *e: WHOLE, num_parallel_calls=3)",
    "flat_map": "d.flat_map(lambda *e: D.from_tensors(WHOLE).repeat(2))",
    "interleave": "d.interleave(lambda *e: D.from_tensors(WHOLE).repeat(2), 3)",
    "interleave_contrib": "d.apply(tf.data.experimental.parallel_interleave("
    "lambda *e: D.from_tensors(WHOLE).repeat(3), cycle_length=2))",
    "group_by_window": "d.apply(tf.data.experimental.group_by_window(lambda *e: NUMBER % 2, lambda k, w: w, 3))",
    "choose": "tf.data.experimental.choose_from_datasets([d, d.skip(4)], D.range(8).map(lambda i: i * i % 3 % 2))",
    "sample": "tf.data.experimental.sample_from_datasets([d, d.skip(4)], seed=2)",
    "take_while": "d.apply(tf.data.experimental.take_while(lambda *e: NUMBER < 5))",
    "unbatch": "d.batch(4).apply(tf.data.experimental.unbatch())",
    "options": "d.with_options(tf.data.Options())",
    "ignore_errors": "d.apply(tf.data.experimental.ignore_errors())",
    "unique": "d.apply(tf.data.experimental.unique())",
}
OTHER = {  # stages that make something else of them
    "batch": "d.batch(4)",
    "batch_dropped": "d.batch(4, drop_remainder=True)",
    "padded_batch": "d.padded_batch(4, d.output_shapes)",
    "enumerate": "d.enumerate(7).map(lambda n, e: (n, e))",
    "zip": "D.zip({'l': d, 'r': d.skip(3)})",
    "from_tensors": "D.zip((d, D.range(3))).map(lambda l, r: {'l': l, 'r': r})",
    "scan": "d.apply(tf.data.experimental.scan(np.int64(3), lambda s, *e: (s + (lambda *e: NUMBER)(*e[0] if len(e) == 1"
    " and type(e[0]) is tuple else e), {'s': s})))",
    "reduce": "D.from_tensors(d.reduce(np.int64(0), lambda s, *e: s + (lambda *e: NUMBER)(*e[0] if len(e) == 1 "
    "and type(e[0]) is tuple else e)))",
    "group_by_reducer": "d.apply(tf.data.experimental.group_by_reducer(lambda *e: NUMBER % 2, "
    "tf.data.experimental.Reducer(lambda k: k, lambda s, *e: s * 2 + 1, lambda s: s)))",
    "window": "d.window(3, 2).map(lambda *e: tf.constant(0))",
    "map_and_batch": "d.apply(tf.data.experimental.map_and_batch(lambda *e: WHOLE, 4))",
    "buckets": "d.apply(tf.data.experimental.bucket_by_sequence_length(lambda *e: tf.cast(NUMBER, tf.int32), [3, 6], "
    "[2, 3, 2]))",
    "resample": "d.apply(tf.data.experimental.rejection_resample(lambda *e: tf.cast(NUMBER % 2, tf.int32), [0.5, 0.5], "
    "[0.4, 0.6], seed=3))",
    "single": "D.from_tensors(tf.data.experimental.get_single_element(d.skip(3).take(1)))",
}
# Of these, elements of the last two kinds are datasets and optionals, which a session cannot fetch.
FETCHED = "batch", "batch_dropped", "enumerate", "zip", "from_tensors", "buckets", "single", "resample"
FAILING = (
    "D.range(14).map(lambda i: i + tf.cast(0.0 * tf.check_numerics(1.0 / tf.cast(i % 5 - 3, tf.float32), 'zero'), "
    "tf.int64))"
)
# TensorFlow would make one stage of a map and a batch behind it, which drops all elements of a batch with a bad one.
UNFUSED = "(lambda o: setattr(o.experimental_optimization, 'map_and_batch_fusion', False) or o)(tf.data.Options())"
BEHIND_FAILURES = {
    "shuffle": "d.shuffle(6, seed=5)",
    "shuffle_wide": "d.shuffle(60, seed=5)",
    "shuffle_batch": "d.shuffle(4, seed=5).batch(3)",
    "shuffle_repeat": "d.shuffle(4, seed=5).repeat(2)",
    "shuffle_and_repeat": "d.apply(tf.data.experimental.shuffle_and_repeat(4, 2, seed=5))",
    "skip": "d.skip(5)",
    "take": "d.take(5)",
    "take_map": "d.take(7).map(lambda i: i + 1)",
    "shard": "d.shard(2, 1)",
    "repeat": "d.repeat(2)",
    "batch": "d.batch(4)",
    "batch_dropped": "d.batch(4, drop_remainder=True)",
    "padded_batch": "d.padded_batch(4, [])",
    "map": "d.map(lambda i: i + 1)",
    "map_shuffle": "d.map(lambda i: i + 1).shuffle(5, seed=2)",
    "map_map_batch": "d.map(lambda i: i + 1).map(lambda i: -i).batch(3)",
    "map_map_shuffle_batch": "d.map(lambda i: i + 1).map(lambda i: -i).shuffle(5, seed=2).batch(3)",
    "map_parallel": "d.map(lambda i: i + 1, num_parallel_calls=3)",
    "filter": "d.filter(lambda i: i > 1)",
    "filter_shuffle": "d.filter(lambda i: tf.equal(i % 2, 0)).shuffle(4, seed=2)",
    "filter_batch": "d.filter(lambda i: tf.equal(i % 2, 0)).batch(2)",
    "skip_shuffle": "d.skip(4).take(8).shuffle(5, seed=3)",
    "flat_map": "d.flat_map(lambda i: D.range(i))",
    "flat_map_inside": "D.range(3).flat_map(lambda j: DD)",
    "interleave": "d.interleave(lambda i: D.range(i, i + 2), 3)",
    "interleave_inside": "D.range(3).interleave(lambda j: DD, 2)",
    "interleave_contrib": "d.apply(tf.data.experimental.parallel_interleave(lambda i: D.range(i, i + 2), 3))",
    "concatenate": "d.concatenate(d)",
    "zip": "D.zip((D.range(20), d))",
    "zip_before": "D.zip((d, D.range(20)))",
    "prefetch": "d.prefetch(3)",
    "window": "d.window(3).flat_map(lambda w: w.batch(9))",
    "window_shifted": "d.window(3, 1).flat_map(lambda w: w.batch(9))",
    "window_apart": "d.window(2, 4).flat_map(lambda w: w.batch(9))",
    "window_strided": "d.window(3, 2, 2, drop_remainder=True).flat_map(lambda w: w.batch(9))",
    "sliding": "d.apply(tf.contrib.data.sliding_window_batch(3, window_shift=2))",
    "sliding_apart": "d.apply(tf.contrib.data.sliding_window_batch(2, window_shift=4))",
    "group_by_window": "d.apply(tf.data.experimental.group_by_window(lambda i: i % 2, lambda k, w: w.batch(9), 3))",
    "map_and_batch": "d.apply(tf.data.experimental.map_and_batch(lambda i: i + 1, 3))",
    "scan": "d.apply(tf.data.experimental.scan(np.int64(0), lambda s, i: (s + i, s)))",
    "unique": "d.apply(tf.data.experimental.unique())",
    "take_while": "d.apply(tf.data.experimental.take_while(lambda i: i < 11))",
    "unbatch": "d.batch(3).apply(tf.data.experimental.unbatch())",
    "dense_to_sparse": "d.map(lambda i: tf.fill([2], i)).apply(tf.data.experimental.dense_to_sparse_batch(3, [2]))",
    "choose": "tf.data.experimental.choose_from_datasets([d, D.range(50, 60)], D.range(20).map(lambda i: i % 2))",
}


def nested():
    """The name and expression of each stage over each structure."""
    for kind, source in STRUCTURES.items():
        for name, text in {**SAME, **OTHER}.items():
            if kind in SHOWN and name in FETCHED:
                continue
            text = text.replace("WHOLE", WHOLE).replace("NUMBER", NUMBER[kind])
            shown = SHOWN.get(kind, "") if name in SAME else ""
            yield f"{kind}/{name}", f"(lambda d: {text})({source}){shown}"


def failing():
    """The name and expression of each stage over an input that fails."""
    for name, text in BEHIND_FAILURES.items():
        text = text.replace("DD", f"({FAILING})")
        ignored = f"(lambda d: {text})({FAILING}).apply(tf.data.experimental.ignore_errors())"
        yield f"failing/{name}", f"{ignored}.with_options({UNFUSED})"


NESTED = {**dict(nested()), **dict(failing())}
