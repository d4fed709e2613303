"""Save small models as TensorFlow and Keras save them, with what TensorFlow computes from them.

Run with an interpreter that has TensorFlow and Keras:
`python tools/golden/graphs/saved_models.py tests/golden/saved_models [NAME...]`. Each model is a folder with the
SavedModel and `expected.json`: a list of calls, each with signature, inputs and outputs as `{name: {"dtype",
"value"}}`; a call's effects are seen by those after it.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def random(*shape):
    """Numbers that depend on the shape only."""
    return np.random.RandomState(sum(shape) + 1).randn(*shape).astype(np.float32)


def keras_cnn(keras):
    """Convolutions of several kinds, batch norm and pooling, and a batch of pictures."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.Conv2D(6, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.SeparableConv2D(8, 3, strides=2, activation="silu"),
            layers.MaxPooling2D(2, padding="same"),
            layers.ZeroPadding2D(1),
            layers.Conv2DTranspose(4, 2, strides=2, activation="elu"),
            layers.AveragePooling2D(2),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.5),
            layers.Dense(5, activation="softmax"),
        ]
    )
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.set_weights([1 + 0.1 * random(6), random(6), random(6), 1 + np.abs(random(6))])
    return model, [random(2, 12, 12, 3)]


def keras_attention(keras):
    """A transformer block, and a batch of sequences."""
    layers = keras.layers
    x = keras.Input((7, 8))
    y = layers.MultiHeadAttention(2, 4)(x, x)
    y = layers.LayerNormalization()(x + y)
    z = layers.Dense(16, activation="gelu")(y)
    y = layers.LayerNormalization()(y + layers.Dense(8)(z))
    return keras.Model(x, layers.Dense(3)(layers.Flatten()(y))), [random(2, 7, 8)]


def keras_lstm(keras):
    """Two LSTM layers, and a batch of sequences."""
    layers = keras.layers
    x = keras.Input((None, 4))
    y = layers.LSTM(5, return_sequences=True)(x)
    return keras.Model(x, layers.Dense(2)(layers.LSTM(3)(y))), [random(2, 6, 4)]


def keras_gru(keras):
    """A bidirectional GRU over masked embeddings, and a batch of ids."""
    layers = keras.layers
    x = keras.Input((None,), dtype="int32")
    y = layers.Embedding(20, 6, mask_zero=True)(x)
    y = layers.Bidirectional(layers.GRU(4))(y)
    return keras.Model(x, layers.Dense(2, activation="tanh")(y)), [np.int32([[3, 7, 1, 0], [19, 2, 0, 0]])]


def keras_conv_lstm(keras):
    """Two convolutional LSTM layers, and a batch of films."""
    layers = keras.layers
    x = keras.Input((4, 8, 8, 2))
    y = layers.ConvLSTM2D(3, 3, padding="same", return_sequences=True)(x)
    return keras.Model(x, layers.Flatten()(layers.ConvLSTM2D(2, 3)(y))), [random(2, 4, 8, 8, 2)]


def keras_mixed(keras):
    """Layers that compute in float16 and hold float32, and a batch of pictures."""
    layers = keras.layers
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    x = keras.Input((8, 8, 3))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, activation="relu")(x))
    y = layers.Dense(6, activation="gelu")(layers.Flatten()(y))
    model = keras.Model(x, layers.Dense(3, activation="softmax", dtype="float32")(y))
    keras.config.set_dtype_policy(policy)
    return model, [random(2, 8, 8, 3)]


def keras_numbers(keras):
    """Preprocessing of numbers: normalised, in bins, looked up, hashed."""
    layers = keras.layers
    x, number = keras.Input((3,), name="x"), keras.Input((1,), dtype="int64", name="number")
    normal = layers.Normalization()
    normal.adapt(random(50, 3))
    bins = layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])(x)
    known = layers.IntegerLookup(vocabulary=[3, 7, 11], num_oov_indices=2, output_mode="multi_hot")(number)
    hashed = layers.CategoryEncoding(num_tokens=5, output_mode="one_hot")(layers.Hashing(num_bins=5)(number))
    parts = [normal(x), *(keras.ops.cast(layers.Flatten()(part), "float32") for part in (bins, known, hashed))]
    return keras.Model([x, number], layers.Concatenate()(parts)), [random(4, 3), np.int64([[3], [11], [5], [0]])]


def keras_text(keras):
    """Preprocessing of texts: n-grams through a vocabulary into an embedding, and weighted counts of words."""
    layers = keras.layers
    texts = ["the quick brown fox", "jumps over the lazy dog", "a quick test"]
    x = keras.Input((1,), dtype="string")
    grams = layers.TextVectorization(max_tokens=30, output_sequence_length=6, ngrams=2)
    counts = layers.TextVectorization(output_mode="tf_idf")
    for layer in (grams, counts):
        layer.adapt(texts)
    y = layers.GlobalAveragePooling1D()(layers.Embedding(30, 4)(grams(x)))
    given = np.array([["The quick, dog!"], ["lazy zebra test over"]], object)
    return keras.Model(x, layers.Concatenate()([y, layers.Flatten()(counts(x))])), [given]


class Words(tf.Module):
    """Strings through a vocabulary from a file, with a table that counts what it saw."""

    def __init__(self, path):
        super().__init__()
        initializer = tf.lookup.TextFileInitializer(
            path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.table = tf.lookup.StaticVocabularyTable(initializer, 3)
        pairs = tf.lookup.KeyValueTensorInitializer(["the", "fox"], [0.5, 2.0])
        self.weights_of = tf.lookup.StaticHashTable(pairs, 1.0)
        self.seen = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
        self.embedding = tf.Variable(random(8, 3), name="embedding")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        words = tf.strings.regex_replace(tf.strings.strip(tf.strings.lower(text)), "[^a-z]", "")
        ids = self.table.lookup(words)
        before = self.seen.lookup(words)
        self.seen.insert(words, before + 1)
        rows = tf.gather(self.embedding, ids) * self.weights_of.lookup(words)[:, None]
        return {"ids": ids, "before": before, "sum": tf.reduce_sum(rows, 0), "long": tf.strings.length(words) > 3}


class Steps(tf.Module):
    """Loops, conditionals, calls, and a training step."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(random(3, 1), name="w")
        self.count = tf.Variable(0, name="count", dtype=tf.int64)
        self.scale = tf.constant(random(3))

    @tf.function(
        input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x"), tf.TensorSpec([None, 1], tf.float32, name="y")]
    )
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.predict(x)["y"] - y))
        self.w.assign_sub(0.1 * tape.gradient(loss, self.w))
        self.count.assign_add(1)
        return {"loss": loss, "count": self.count}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def predict(self, x):
        return {"y": tf.matmul(x * self.scale, self.w)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="n")])
    def collatz(self, n):
        steps = tf.constant(0)
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return {"steps": steps}


class Many(tf.Module):
    """Several inputs in an order that is not the alphabet's, of several dtypes, one of them only passed on."""

    def __init__(self):
        super().__init__()
        self.a = tf.Variable([1.0, 2.0], name="same")
        self.b = tf.Variable([10.0, 20.0], name="same")

    @tf.function(
        input_signature=[
            tf.TensorSpec([2], tf.float32, name="z"),
            tf.TensorSpec([], tf.bool, name="flag"),
            tf.TensorSpec([None], tf.string, name="a"),
        ]
    )
    def __call__(self, z, flag, a):
        return {"sum": z + self.a, "product": z * self.b, "flag": tf.logical_not(flag), "a": a}


class Ragged(tf.Module):
    """Functions that take and give ragged and sparse tensors, and a signature that has them inside only."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def split(self, text):
        words = tf.strings.split(text)
        return {"words": words, "counts": words.row_lengths()}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def stored(self, x):
        return tf.sparse.from_dense(x), tf.RaggedTensor.from_tensor(x, padding=0.0)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.float32)])
    def scaled(self, rows, factor):
        return tf.reduce_sum(rows, 1), rows * factor

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 3], tf.float32)])
    def dense(self, x):
        return tf.sparse.to_dense(x)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def padded(self, text):
        return {"words": tf.strings.split(text).to_tensor("-")}


def ragged(folder):
    """Saves `Ragged` with one signature."""
    module = Ragged()
    return export(folder, module, module.padded, [("serving_default", {"text": np.array(["a b", "", "c"], object)})])


def export(folder, module, signatures, calls):
    """Saves a module and records what its loaded signatures give."""
    tf.saved_model.save(module, folder, signatures=signatures)
    os.remove(os.path.join(folder, "fingerprint.pb"))
    return run(folder, calls)


def run(folder, calls):
    """Calls the signatures of a saved model in order."""
    loaded = tf.saved_model.load(folder)
    recorded = []
    for name, inputs in calls:
        function = loaded.signatures[name]
        outputs = function(**{key: tf.constant(value) for key, value in inputs.items()})
        recorded.append((name, inputs, {key: value.numpy() for key, value in outputs.items()}))
    return recorded


def words(folder):
    """Saves `Words` and calls it twice."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        path = "vocabulary.txt"  # relative, as the path becomes part of the table's name
        with open(path, "w") as stream:
            stream.write("the\nquick\nbrown\nfox\njumps\n")
        module = Words(path)
        calls = [
            ("serving_default", {"text": np.array(["The", " fox!", "zebra", "fox"], object)}),
            ("serving_default", {"text": np.array(["fox", "quick", "yak"], object)}),
        ]
        return export(folder, module, module.__call__.get_concrete_function(), calls)


def steps(folder):
    """Saves `Steps` with three signatures; training changes what prediction gives."""
    module = Steps()
    x, y = random(4, 3), random(4, 1)
    signatures = {"train": module.train, "serving_default": module.predict, "collatz": module.collatz}
    calls = [
        ("serving_default", {"x": x}),
        ("train", {"x": x, "y": y}),
        ("train", {"x": x, "y": y}),
        ("serving_default", {"x": x}),
        ("collatz", {"n": np.int32(27)}),
    ]
    return export(folder, module, signatures, calls)


class Filled(tf.Module):
    """Tables that hold something when they are saved, and a generator that has drawn."""

    def __init__(self):
        super().__init__()
        self.words = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, [0.0, 0.0])
        self.words.insert(["the", "fox"], [[1.0, 2.0], [3.0, 4.0]])
        sizes = {"empty_key": -1, "deleted_key": -2, "initial_num_buckets": 8}
        self.numbers = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.5, **sizes)
        self.numbers.insert(np.int64([5, 6]), np.float32([7, 8]))
        self.pairs = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, [0.5, 0.5], **sizes)
        self.pairs.insert(np.int64([5, 6]), np.float32([[7, 8], [9, 10]]))
        for table in (self.numbers, self.pairs):
            table.erase(np.int64([6]))
        self.generator = tf.random.Generator.from_seed(3)
        self.generator.uniform([2])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def find(self, text):
        keys = np.int64([5, 6, 7])
        return {
            "words": self.words.lookup(text),
            "numbers": self.numbers.lookup(keys),
            "pairs": self.pairs.lookup(keys),
            "sizes": tf.stack([self.words.size(), self.numbers.size(), self.pairs.size()]),
        }

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64, name="key")])
    def insert(self, key):
        self.numbers.insert([key], [1.0])
        self.pairs.insert([key], [[1.0, 2.0]])
        return {"size": self.numbers.size()}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="n")])
    def draw(self, n):
        return {
            "uniform": self.generator.uniform([n]),
            "normal": self.generator.normal([n, 2]),
            "whole": self.generator.uniform([n], 0, 100, tf.int32),
        }


def filled(folder):
    """Saves `Filled`; inserts and draws are seen by the calls after them."""
    module = Filled()
    text, n = {"text": np.array(["fox", "zebra"], object)}, {"n": np.int32(3)}
    calls = [("serving_default", text), ("insert", {"key": np.int64(7)}), ("serving_default", text)]
    signatures = {"serving_default": module.find, "insert": module.insert, "draw": module.draw}
    return export(folder, module, signatures, [*calls, ("draw", n), ("draw", n)])


class Texts(tf.Module):
    """Texts by character, as ragged rows of words, and pictures that are scaled with a filter against aliasing."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        words = tf.strings.split(text)
        codes = tf.strings.unicode_decode(text, "UTF-8")
        lengths = words.row_lengths()
        ranges = tf.ragged.range(lengths)
        joined = tf.strings.reduce_join(words[:, ::-1], 1, separator=" ")
        return {
            "codes": codes.to_tensor(),
            "again": tf.strings.unicode_encode(codes + 1, "UTF-8"),
            "joined": joined,
            "ranges": ranges.to_tensor(-1),
            "twice": tf.gather(words, [0, 0]).to_tensor("-"),
            "places": words.to_sparse().indices,
            "grams": tf.strings.ngrams(words, 2, separator="_").to_tensor(""),
            "controls": tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", replace_control_characters=True),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 6, 2], tf.float32, name="image")])
    def scale(self, image):
        sizes = {"small": (3, 4), "large": (11, 9)}
        return {
            f"{method}_{name}": tf.image.resize(image, size, method, antialias=True)
            for name, size in sizes.items()
            for method in ("bilinear", "bicubic", "lanczos3", "gaussian", "area")
        }


def texts(folder):
    """Saves `Texts`."""
    module = Texts()
    text = {"text": np.array(["h\u00e9llo w\u00f6rld a", "x", "\u65e5\u672c \u8a9e"], object)}
    signatures = {"serving_default": module.__call__.get_concrete_function(), "scale": module.scale}
    return export(folder, module, signatures, [("serving_default", text), ("scale", {"image": random(1, 8, 6, 2)})])


def many(folder):
    """Saves `Many` and calls it."""
    module = Many()
    given = {"z": np.float32([3, 4]), "flag": np.bool_(True), "a": np.array(["p", "q"], object)}
    return export(folder, module, module.__call__.get_concrete_function(), [("serving_default", given)])


def version_1(folder):
    """A graph with reference variables, a partitioned one, an asset and a table, by TensorFlow 1's builder."""
    scratch = tempfile.TemporaryDirectory()
    with scratch as place, contextlib.chdir(place), tf.Graph().as_default(), v1.Session() as session:
        path = "vocabulary.txt"  # relative, as the path becomes part of the table's name
        with open(path, "w") as stream:
            stream.write("a\nb\nc\n")
        v1.disable_resource_variables()
        x = v1.placeholder(tf.float32, [None, 3], "x")
        word = v1.placeholder(tf.string, [None], "word")
        initial = v1.random_normal_initializer(seed=3)
        w = v1.get_variable("w", [3, 2], initializer=initial, partitioner=v1.fixed_size_partitioner(2))
        b = v1.get_variable("b", initializer=random(2))
        y = tf.add(tf.matmul(x, tf.concat(list(w), 0)), b, name="y")
        initializer = tf.lookup.TextFileInitializer(path, tf.string, -2, tf.int64, -1)
        table = v1.lookup.StaticHashTable(initializer, -1)
        ids = table.lookup(word)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.builder.SavedModelBuilder(folder)
        predict = v1.saved_model.signature_def_utils.predict_signature_def
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": predict({"x": x}, {"y": y}), "words": predict({"word": word}, {"ids": ids})},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.add_meta_graph(["serve", "other"], {"serving_default": predict({"x": x}, {"twice": 2 * y})})
        builder.save()
        given, text = random(2, 3), np.array(["c", "none"], object)
        return [
            ("serving_default", {"x": given}, {"y": session.run(y, {x: given})}),
            ("words", {"word": text}, {"ids": session.run(ids, {word: text})}),
        ]


def keras_model(make):
    """A function that exports the Keras model that `make` gives."""

    def save(folder):
        import keras

        keras.utils.set_random_seed(7)
        model, inputs = make(keras)
        model.export(folder, verbose=False)
        known = list(tf.saved_model.load(folder).signatures["serving_default"].structured_input_signature[1])
        names = [item.name for item in model.inputs]
        names = names if sorted(names) == sorted(known) else known
        os.remove(os.path.join(folder, "fingerprint.pb"))
        return run(folder, [("serving_default", dict(zip(names, inputs, strict=True)))])

    return save


MODELS = {
    "cnn": keras_model(keras_cnn),
    "attention": keras_model(keras_attention),
    "lstm": keras_model(keras_lstm),
    "gru": keras_model(keras_gru),
    "conv_lstm": keras_model(keras_conv_lstm),
    "mixed": keras_model(keras_mixed),
    "numbers": keras_model(keras_numbers),
    "text": keras_model(keras_text),
    "words": words,
    "steps": steps,
    "many": many,
    "filled": filled,
    "texts": texts,
    "ragged": ragged,
    "version_1": version_1,
}


def shown(values):
    """Arrays as JSON has them."""
    found = {}
    for name, value in values.items():
        array = np.asarray(value)
        texts = array.dtype.kind in "OSU"
        data = array.tolist()
        if texts:
            data = [item if isinstance(item, str) else item.decode() for item in array.ravel()]
            data = np.array(data, object).reshape(array.shape).tolist()
        found[name] = {"dtype": "string" if texts else array.dtype.name, "value": data}
    return found


def main():
    """Saves the models that are named, or all."""
    target, *chosen = sys.argv[1:]
    for name in chosen or MODELS:
        folder = os.path.join(target, name)
        shutil.rmtree(folder, ignore_errors=True)
        calls = MODELS[name](folder)
        shutil.rmtree(os.path.join(folder, "variables", "__pycache__"), ignore_errors=True)
        with open(os.path.join(folder, "expected.json"), "w") as stream:
            rows = [
                {"signature": key, "inputs": shown(inputs), "outputs": shown(outputs)} for key, inputs, outputs in calls
            ]
            json.dump(rows, stream)
            stream.write("\n")
        print(name, "saved")


if __name__ == "__main__":
    main()
