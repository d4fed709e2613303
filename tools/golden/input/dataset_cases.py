"""Pipelines whose elements `tools/golden/input/datasets.py` notes from TensorFlow 1.15, and the tests compare.

Each is an expression of `tf`, `np` and `D` (`tf.data.Dataset`), a dataset; so it says the same to both.
"""

CASES = {
    # ----------------------------------------------------------------------------------------------------- shuffling
    "shuffle": "D.range(30).shuffle(7, seed=3)",
    "shuffle_all": "D.range(30).shuffle(100, seed=3)",
    "shuffle_one": "D.range(5).shuffle(1, seed=3)",
    "shuffle_seed_zero": "D.range(12).shuffle(5, seed=0)",
    "shuffle_large_seed": "D.range(12).shuffle(5, seed=2**40 + 7)",
    "shuffle_same": "D.range(12).shuffle(5, seed=9, reshuffle_each_iteration=False).repeat(3)",
    "shuffle_repeat": "D.range(12).shuffle(5, seed=9).repeat(3)",
    "shuffle_repeat_endless": "D.range(12).shuffle(5, seed=9).repeat().take(40)",
    "shuffle_repeat_wide": "D.range(12).shuffle(100, seed=9).repeat(4)",
    "shuffle_map_repeat": "D.range(12).shuffle(5, seed=9).map(lambda x: x + 1).repeat(3)",
    "shuffle_batch_repeat": "D.range(12).shuffle(5, seed=9).batch(5).repeat(3)",
    "shuffle_take_repeat": "D.range(12).shuffle(5, seed=9).take(7).repeat(3)",
    "shuffle_twice": "D.range(12).shuffle(5, seed=9).shuffle(5, seed=10).repeat(2)",
    "repeat_shuffle": "D.range(5).repeat(3).shuffle(4, seed=2)",
    "shuffle_and_repeat": "D.range(12).apply(tf.data.experimental.shuffle_and_repeat(5, 3, seed=9))",
    "shuffle_and_repeat_wide": "D.range(6).apply(tf.data.experimental.shuffle_and_repeat(100, 4, seed=9))",
    "shuffle_and_repeat_endless": "D.range(6).apply(tf.data.experimental.shuffle_and_repeat(4, seed=9)).take(25)",
    "shuffle_zip": "(lambda s: D.zip((s, s)))(D.range(8).shuffle(8, seed=4)).repeat(2)",
    "shuffle_concatenate": "(lambda s: s.concatenate(s))(D.range(8).shuffle(8, seed=4)).map(lambda x: x).repeat(2)",
    "shuffle_filtered": "D.range(20).filter(lambda x: tf.equal(x % 3, 0)).shuffle(3, seed=1).repeat(2)",
    "shuffle_inside": "D.range(3).flat_map(lambda x: D.range(5).shuffle(5, seed=6).map(lambda y: 10 * x + y))",
    "shuffle_inside_interleave": "D.range(3).interleave(lambda x: D.range(4).shuffle(4, seed=6), 2, 1).repeat(2)",
    # ---------------------------------------------------------------------------------------------------- structures
    "tensors": "D.from_tensors((np.array([1, 2]), {'b': 'text', 'a': np.float32(3)}))",
    "slices": "D.from_tensor_slices({'x': np.arange(6.0).reshape(3, 2), 'y': [b'a', b'b', b'c']})",
    "slices_nested": "D.from_tensor_slices(((np.arange(3), np.arange(3.0)), [True, False, True])).map(lambda p, q: p)",
    "sparse": "D.from_tensors(tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2])).repeat(2)",
    "sparse_slices": "D.from_tensor_slices(tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2]))",
    "sparse_batch": "D.from_tensor_slices(tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2])).batch(2)",
    "sparse_map": "D.range(3).map(lambda i: tf.SparseTensor([[i]], tf.reshape(i, [1]), [5])).batch(3)",
    "sparse_rows": "D.from_sparse_tensor_slices(tf.SparseTensor([[0, 1], [0, 2], [2, 0]], [1, 2, 3], [4, 3]))",
    # ---------------------------------------------------------------------------------------------------- selections
    "range": "D.range(2, 11, 3)",
    "range_down": "D.range(5, -4, -2)",
    "range_empty": "D.range(3, 3)",
    "repeat": "D.range(3).repeat(2)",
    "repeat_never": "D.range(3).repeat(0)",
    "repeat_empty": "D.range(0).repeat()",
    "take": "D.range(9).take(4)",
    "take_all": "D.range(3).take(-1)",
    "skip": "D.range(9).skip(6)",
    "skip_all": "D.range(3).skip(-1)",
    "skip_too_many": "D.range(3).skip(5)",
    "shard": "D.range(11).shard(3, 1)",
    "shard_tail": "D.range(11).shard(4, 3).batch(2)",
    "selections": "D.range(20).skip(2).shard(2, 1).take(6).repeat(2).skip(3).batch(4)",
    "concatenate": "D.range(3).concatenate(D.range(10, 12)).repeat(2)",
    "zip": "D.zip((D.range(5), {'a': D.range(10, 13), 'b': D.range(4)}))",
    "enumerate": "D.from_tensor_slices(['a', 'b']).enumerate(start=5)",
    "cache": "D.range(4).map(lambda x: x * x).cache().repeat(2)",
    "prefetch": "D.range(4).prefetch(2)",
    # ----------------------------------------------------------------------------- windows, groups, choices, draws
    "window": "D.range(7).window(3).flat_map(lambda w: w.batch(5))",
    "window_shifted": "D.range(10).window(3, 2, 2).flat_map(lambda w: w.batch(5))",
    "window_apart": "D.range(12).window(2, shift=5).flat_map(lambda w: w)",
    "window_dropped": "D.range(8).window(3, 1, 2, drop_remainder=True).flat_map(lambda w: w.batch(3))",
    "window_of_pairs": "D.from_tensor_slices({'a': np.arange(5), 'b': np.arange(5.0)}).window(2).flat_map("
    "lambda w: D.zip((w['a'].batch(2), w['b'].batch(2))))",
    "window_sparse": "D.range(3).map(lambda i: tf.SparseTensor([[i]], [i], [4])).window(2).flat_map("
    "lambda w: w.batch(2))",
    "window_nested": "D.range(9).window(4).flat_map(lambda w: w.window(2).flat_map(lambda v: v.batch(2)))",
    "window_reduced": "D.range(7).window(3).map(lambda w: w.reduce(tf.constant(0, tf.int64), lambda s, x: s + x))",
    "sliding": "D.range(9).apply(tf.contrib.data.sliding_window_batch(3, window_shift=2, window_stride=2))",
    "sliding_sparse": "D.range(4).map(lambda i: tf.SparseTensor([[i]], [i], [4])).apply("
    "tf.contrib.data.sliding_window_batch(2))",
    "group_by_window": "D.range(11).apply(tf.data.experimental.group_by_window("
    "lambda x: x * 7 % 4, lambda k, w: w.batch(2).map(lambda b: (k, b)), 3))",
    "group_by_window_sized": "D.range(14).apply(tf.data.experimental.group_by_window("
    "lambda x: tf.cast(x % 3, tf.int64), lambda k, w: w.batch(9), window_size_func=lambda k: k + 1))",
    "group_by_window_shuffled": "D.range(14).apply(tf.data.experimental.group_by_window("
    "lambda x: x % 2, lambda k, w: w.shuffle(5, seed=2).batch(9), 4)).repeat(2)",
    "group_by_reducer": "D.range(10).apply(tf.data.experimental.group_by_reducer(lambda x: -x % 3, "
    "tf.data.experimental.Reducer(lambda k: (k, tf.constant(0, tf.int64)), lambda s, x: (s[0], s[1] + x), "
    "lambda k, t: {'key': k, 'total': t})))",
    "group_by_reducer_growing": "D.range(6).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, "
    "tf.data.experimental.Reducer(lambda k: tf.fill([1], k), lambda s, x: tf.concat([s, [x]], 0), lambda s: s)))",
    "buckets": "D.range(14).map(lambda n: tf.fill([n * 5 % 9], n)).apply("
    "tf.data.experimental.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3, 6], [2, 3, 2]))",
    "buckets_to_boundary": "D.range(14).map(lambda n: (n, tf.fill([n * 5 % 6], n))).apply("
    "tf.data.experimental.bucket_by_sequence_length(lambda n, x: tf.shape(x)[0], [3, 7], [2, 3, 2], "
    "padding_values=(tf.constant(0, tf.int64), tf.constant(-1, tf.int64)), pad_to_bucket_boundary=True, "
    "drop_remainder=True))",
    "buckets_unpadded": "D.range(9).map(lambda n: tf.SparseTensor([[n % 3]], [n], [4])).apply("
    "tf.data.experimental.bucket_by_sequence_length(lambda x: tf.cast(x.values[0], tf.int32), [4], [2, 3], "
    "no_padding=True))",
    "choose": "tf.data.experimental.choose_from_datasets([D.range(3), D.range(10, 20)], "
    "D.from_tensor_slices(np.array([0, 1, 0, 1, 1, 0, 0, 0, 1])))",
    "random": "tf.data.experimental.RandomDataset(5).take(70)",
    "random_again": "tf.data.experimental.RandomDataset(2**35).take(3).repeat(2)",
    "sample": "tf.data.experimental.sample_from_datasets([D.range(10), D.range(10, 30), D.range(30, 33)], seed=3)",
    "sample_weighted": "tf.data.experimental.sample_from_datasets([D.range(10), D.range(10, 30)], [0.2, 0.8], seed=7)",
    "sample_by_dataset": "tf.data.experimental.sample_from_datasets([D.range(10), D.range(10, 30)], "
    "D.from_tensor_slices([[0.9, 0.1], [0.1, 0.9]]).repeat(6), seed=7)",
    "resample": "D.from_tensor_slices(np.array([0, 1, 1, 2, 1, 2, 2, 1] * 5)).apply("
    "tf.data.experimental.rejection_resample(lambda x: tf.cast(x, tf.int32), [0.3, 0.3, 0.4], "
    "[0.125, 0.5, 0.375], seed=4))",
    "resample_estimated": "D.from_tensor_slices(np.array([0, 1, 1, 2, 1, 2, 2, 1] * 9)).apply("
    "tf.data.experimental.rejection_resample(lambda x: tf.cast(x, tf.int32), [0.3, 0.3, 0.4], seed=4))",
    "scan": "D.range(6).apply(tf.data.experimental.scan((tf.constant(0, tf.int64), 'x'), "
    "lambda s, x: ((s[0] + x, tf.strings.join([s[1], 'y'])), {'sum': s[0], 'text': s[1]})))",
    "scan_growing": "D.range(4).apply(tf.data.experimental.scan(np.zeros(0, np.int64), "
    "lambda s, x: (tf.concat([s, [x]], 0), s)))",
    "scan_sparse": "D.range(4).apply(tf.data.experimental.scan(tf.SparseTensor([[0]], np.array([1]), [1]), "
    "lambda s, x: (tf.SparseTensor([[0]], s.values + x, [1]), s.values)))",
    "take_while": "D.range(9).apply(tf.data.experimental.take_while(lambda x: x * x < 20)).repeat(2)",
    "unique": "D.from_tensor_slices(np.array([3, 1, 3, 2, 1, 3])).apply(tf.data.experimental.unique())",
    "unique_strings": "D.from_tensor_slices(['b', 'a', 'b', 'c', 'a']).apply(tf.data.experimental.unique()).repeat(2)",
    "dense_to_sparse": "D.range(5).map(lambda n: tf.fill([n, 2], n)).apply("
    "tf.data.experimental.dense_to_sparse_batch(2, [6, 3]))",
    "dense_to_sparse_open": "D.range(5).map(lambda n: tf.fill([n], tf.as_string(n))).apply("
    "tf.data.experimental.dense_to_sparse_batch(3, [None]))",
    "map_and_batch_fused": "D.range(8).apply(tf.data.experimental.map_and_batch("
    "lambda x: {'x': x, 'y': tf.fill([2], x)}, 3, num_parallel_batches=2))",
    "map_and_batch_dropped": "D.range(8).apply(tf.data.experimental.map_and_batch("
    "lambda x: x * x, 3, drop_remainder=True, num_parallel_calls=5))",
    "interleave_contrib": "D.range(7).apply(tf.data.experimental.parallel_interleave("
    "lambda n: D.from_tensors(n).repeat(4), cycle_length=3, block_length=2))",
    "interleave_contrib_uneven": "D.range(7).apply(tf.data.experimental.parallel_interleave("
    "lambda n: D.range(n * 3 % 5), cycle_length=2, prefetch_input_elements=0, buffer_output_elements=1))",
    "batch_and_drop": "D.range(8).apply(tf.contrib.data.batch_and_drop_remainder(3))",
    "padded_batch_and_drop": "D.range(8).map(lambda n: tf.fill([n], n)).apply("
    "tf.contrib.data.padded_batch_and_drop_remainder(3, [None]))",
    "element_shape": "D.range(3).map(lambda n: tf.py_func(lambda v: np.full(2, v), [n], tf.int64)).apply("
    "tf.contrib.data.assert_element_shape(tf.TensorShape([2])))",
    "optionals": "D.range(3).map(lambda x: tf.data.experimental.Optional.from_value((x, 'a'))).map("
    "lambda o: (o.has_value(), o.get_value()))",
    # ----------------------------------------------------------------------------------------------------- functions
    "map": "D.range(4).map(lambda x: (x * 2, {'half': tf.cast(x, tf.float32) / 2.0}))",
    "map_tuple": "D.from_tensor_slices(([1, 2], [3, 4])).map(lambda a, b: a * b)",
    "map_list": "D.from_tensor_slices(([1, 2], [3, 4])).map(lambda a, b: [a, b])",
    "map_parallel": "D.range(20).map(lambda x: x * x, num_parallel_calls=4)",
    "map_strings": "D.from_tensor_slices(['a b', 'c']).map(lambda s: tf.string_split([s]).values)",
    "map_cond": "D.range(5).map(lambda x: tf.cond(x > 2, lambda: x * 10, lambda: -x))",
    "map_loop": "D.range(5).map(lambda n: tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), "
    "(tf.constant(0, tf.int64), tf.constant(0, tf.int64)))[1])",
    "map_captured": "(lambda c: D.range(3).map(lambda x: x + c))(tf.constant(7, tf.int64))",
    "map_end": "D.range(10).map(lambda x: tf.py_func(lambda v: v if v < 4 else next(iter(())), [x], tf.int64))",
    "filter": "D.range(10).filter(lambda x: x % 3 > 0)",
    "filter_dict": "D.from_tensor_slices({'a': [1, 2, 3]}).filter(lambda e: e['a'] > 1)",
    "flat_map": "D.range(4).flat_map(lambda n: D.range(n))",
    "flat_map_captured": "D.range(3).flat_map(lambda n: D.range(3).map(lambda m: n * 10 + m)).batch(4)",
    "interleave": "D.range(4).interleave(lambda n: D.from_tensors(n).repeat(3), cycle_length=2, block_length=2)",
    "interleave_uneven": "D.range(6).interleave(lambda n: D.range(n), cycle_length=3, block_length=1)",
    "interleave_wide": "D.range(3).interleave(lambda n: D.range(n + 1), cycle_length=8, block_length=4)",
    "interleave_parallel": "D.range(6).interleave(lambda n: D.range(n), cycle_length=3, block_length=2, "
    "num_parallel_calls=2)",
    "generator": "D.from_generator(lambda: ((i, [i] * i) for i in range(4)), (tf.int64, tf.float32), ([], [None]))",
    "generator_args": "D.from_generator(lambda n: iter(range(n)), tf.int32, [], args=(3,)).repeat(2)",
    # ------------------------------------------------------------------------------------------------------- batches
    "batch": "D.range(7).batch(3)",
    "batch_dropped": "D.range(7).batch(3, drop_remainder=True)",
    "batch_of_batches": "D.range(9).batch(2).batch(2)",
    "batch_dict": "D.from_tensor_slices({'x': np.arange(6.0).reshape(3, 2), 'y': ['a', 'b', 'c']}).batch(2)",
    "padded_batch": "D.range(5).map(lambda n: tf.fill([n], n)).padded_batch(2, [None])",
    "padded_batch_wide": "D.range(5).map(lambda n: tf.fill([n], n)).padded_batch(2, [6], tf.constant(-1, tf.int64))",
    "padded_batch_both": "D.range(4).map(lambda n: (tf.fill([n, 2], n), tf.as_string(n))).padded_batch("
    "3, ([None, 3], []), drop_remainder=True)",
    "padded_batch_strings": "D.range(3).map(lambda n: tf.fill([n], 'x')).padded_batch(3, [None])",
    "unbatch": "D.range(7).batch(3).apply(tf.data.experimental.unbatch())",
    "unbatch_tuple": "D.from_tensors((np.arange(4).reshape(2, 2), ['a', 'b'])).apply(tf.data.experimental.unbatch())",
    "map_and_batch": "D.range(7).map(lambda x: x * x).batch(3)",
}

# Pipelines that are initialised twice and gone through each time.
AGAIN = ("shuffle_repeat", "shuffle_map_repeat", "shuffle_same", "cache", "generator")
