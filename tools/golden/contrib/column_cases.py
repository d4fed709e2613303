"""Cases of `tf.feature_column`, for TensorFlow 1.15.5 and for Anabranch alike."""

from cases import case, numbers


def _features(tf):
    return {
        "word": tf.constant([["x"], ["y"], [""], ["z"]]),
        "words": tf.SparseTensor([[0, 0], [2, 0], [2, 1], [3, 1]], ["p", "q", "p", "nobody"], [4, 2]),
        "weights": tf.SparseTensor([[0, 0], [2, 0], [2, 1], [3, 1]], [0.5, 2.0, -1.0, 1.5], [4, 2]),
        "id": tf.constant([[1, 2], [3, -1], [7, 0], [2, 2]]),
        "other": tf.constant([1, 2, 3, 0]),
        "number": tf.constant(numbers(4, 2, scale=4.0)),
        "age": tf.constant([7, 18, 64, 65]),
    }


def _columns(tf):
    column = tf.feature_column
    number = column.numeric_column("number", shape=2)
    age = column.numeric_column("age", dtype=tf.int64, normalizer_fn=lambda x: (tf.cast(x, tf.float32) - 30.0) / 10.0)
    found = {
        "word": column.categorical_column_with_vocabulary_list("word", ["x", "y"], num_oov_buckets=2),
        "lost": column.categorical_column_with_vocabulary_list("words", ["q", "p"], default_value=-1),
        "hashed": column.categorical_column_with_hash_bucket("words", 7),
        "number_hash": column.categorical_column_with_hash_bucket("other", 5, dtype=tf.int64),
        "id": column.categorical_column_with_identity("id", 4, default_value=0),
        "other": column.categorical_column_with_identity("other", 4),
        "bucket": column.bucketized_column(number, [-1.0, 0.0, 1.5]),
        "age": column.bucketized_column(column.numeric_column("age"), [18, 65]),
    }
    found["weighted"] = column.weighted_categorical_column(found["hashed"], "weights")
    found["cross"] = column.crossed_column(["word", "words", found["age"]], 11)
    found["deep_cross"] = column.crossed_column([found["cross"], found["other"]], 13, hash_key=5)
    return column, number, age, found


@case
def columns_dense(tf):
    """Every kind of dense column, side by side."""
    column, number, age, found = _columns(tf)
    indicators = [column.indicator_column(found[name]) for name in ("word", "lost", "number_hash", "id", "weighted")]
    crosses = [column.indicator_column(found[name]) for name in ("cross", "deep_cross", "bucket")]
    made = {}
    inputs = column.input_layer(
        _features(tf), [number, age, found["bucket"], *indicators, *crosses], cols_to_output_tensors=made
    )
    values = {each.name: value for each, value in made.items()}
    return {"inputs": inputs, **values}


@case
def columns_embeddings(tf):
    """Embeddings of single ids and of several, with weights, norms and a table of two columns."""
    column, number, _, found = _columns(tf)
    columns = [
        number,
        column.embedding_column(found["word"], 3),
        column.embedding_column(found["lost"], 2, combiner="sum", trainable=False),
        column.embedding_column(found["weighted"], 4, combiner="sqrtn"),
        column.embedding_column(found["cross"], 2, max_norm=0.3),
        *column.shared_embedding_columns([found["other"], found["id"]], 3),
    ]
    inputs = column.input_layer(_features(tf), columns, weight_collections=["mine"])
    names = [variable.name for variable in tf.get_collection("mine")]
    trained = tf.trainable_variables()
    slopes = tf.gradients(inputs, trained)
    gradients = {variable.op.name: tf.convert_to_tensor(slopes[at]) for at, variable in enumerate(trained)}
    return {"inputs": inputs, "count": tf.constant([len(names), len(trained)]), **gradients}


@case
def columns_linear(tf):
    """Linear models of dense and categorical columns, with two combiners."""
    column, number, age, found = _columns(tf)
    columns = [number, age, *(found[name] for name in ("word", "hashed", "id", "bucket", "cross"))]
    first, variables = column.linear_model(_features(tf), columns, cols_to_vars=None), {}
    second = column.linear_model(
        _features(tf), [found["weighted"], number], units=3, sparse_combiner="mean", cols_to_vars=variables
    )
    embedded = column.linear_model(_features(tf), [column.embedding_column(found["id"], 2)], units=2)
    counts = tf.constant([len(variables[number]), len(variables["bias"]), len(variables)])
    return {"first": first, "second": second, "counts": counts, "embedded": embedded}


@case
def columns_scopes(tf):
    """Names of variables in scopes, with partitions, and of a second call."""
    column, _, _, found = _columns(tf)
    columns = [column.embedding_column(found["id"], 2), column.embedding_column(found["other"], 3)]
    with tf.variable_scope("tower", partitioner=tf.fixed_size_partitioner(2)):
        first = column.input_layer(_features(tf), columns)
        second = column.input_layer(_features(tf), columns[:1])
        linear = column.linear_model(_features(tf), [found["id"]])
    return {"first": first, "second": second, "linear": linear}


@case
def columns_parsed(tf):
    """Examples that are parsed with the spec of columns."""
    column, number, _, found = _columns(tf)
    missing = column.numeric_column("missing", shape=(2, 1), default_value=[[1.5], [2.5]])
    columns = [number, missing, found["weighted"], column.indicator_column(found["id"]), found["cross"]]
    spec = column.make_parse_example_spec(columns)
    feature = tf.train.Feature
    examples = []
    for row in range(2):
        entries = {
            "number": feature(float_list=tf.train.FloatList(value=[row + 0.5, 2.0])),
            "age": feature(float_list=tf.train.FloatList(value=[20.0 + row * 60])),
            "words": feature(bytes_list=tf.train.BytesList(value=[b"p", b"q"][row:])),
            "weights": feature(float_list=tf.train.FloatList(value=[1.0, 2.0][row:])),
            "word": feature(bytes_list=tf.train.BytesList(value=[b"x"])),
            "id": feature(int64_list=tf.train.Int64List(value=[row, 9])),
        }
        examples.append(tf.train.Example(features=tf.train.Features(feature=entries)).SerializeToString())
    parsed = tf.parse_example(tf.constant(examples), spec)
    dense = [number, missing, column.indicator_column(found["weighted"]), column.indicator_column(found["id"])]
    crossed = column.linear_model(parsed, [found["cross"]])
    count = tf.constant(len(spec))
    return {"inputs": column.input_layer(parsed, dense), "crossed": crossed, "count": count}


@case
def columns_sequences(tf):
    """Inputs of a recurrent network."""
    column, sequences = tf.feature_column, tf.contrib.feature_column
    features = {
        "id": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1, 2, 0], [3, 2]),
        "step": tf.SparseTensor([[0, 0], [0, 1], [0, 2], [0, 3], [2, 0], [2, 1]], numbers(6).tolist(), [3, 4]),
    }
    ids = sequences.sequence_categorical_column_with_identity("id", 4)
    columns = [
        column.embedding_column(ids, 3),
        column.indicator_column(ids),
        sequences.sequence_numeric_column("step", shape=2),
    ]
    inputs, lengths = sequences.sequence_input_layer(features, columns)
    return {"inputs": inputs, "lengths": lengths}
