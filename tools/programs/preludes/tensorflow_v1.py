"""TensorFlow 2: `import tensorflow` means its interface of version 1. For comparisons only.

`tf.contrib`, the recurrent cells and the reader of MNIST, which it has lost, are there as far as the programs use them.
"""

import collections
import gzip
import pickle
import re
import sys
import types
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


def _module(name, **names):
    made = types.ModuleType(f"tensorflow.{name}")
    made.__dict__.update(names)
    sys.modules[made.__name__] = made
    return made


def layer_norm(inputs, begin_norm_axis=1, begin_params_axis=-1, scope=None):
    """`contrib.layers.layer_norm` over the axes from `begin_norm_axis` on."""
    with tf.variable_scope(scope, "LayerNorm", [inputs]):
        shape = inputs.shape[begin_params_axis:]
        beta = tf.get_variable("beta", shape, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, initializer=tf.ones_initializer())
        axes = list(range(begin_norm_axis % len(inputs.shape), len(inputs.shape)))
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def dense(inputs, units, activation=None, name=None, kernel_initializer=None):
    """`layers.dense`."""
    with tf.variable_scope(name, "dense", [inputs]):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units], initializer=kernel_initializer)
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        product = tf.nn.bias_add(tf.tensordot(inputs, kernel, 1), bias)
        return product if activation is None else activation(product)


def fully_connected(inputs, num_outputs, activation_fn=tf.nn.relu):
    """`contrib.layers.fully_connected`."""
    return dense(inputs, num_outputs, activation_fn, kernel_initializer=tf.glorot_uniform_initializer())


LSTMStateTuple = collections.namedtuple("LSTMStateTuple", ("c", "h"))


class _Cell:
    """A recurrent cell, with variables in the scope in which it is called."""

    def __init__(self, num_units, state_is_tuple=True, activation=tf.tanh):
        self.units, self.output_size, self.activation = num_units, num_units, activation

    def zero_state(self, batch, dtype):
        if isinstance(self.state_size, tuple):
            return LSTMStateTuple(*[tf.zeros([batch, size], dtype) for size in self.state_size])
        return tf.zeros([batch, self.state_size], dtype)

    def linear(self, name, parts, size, start=None):
        parts = tf.concat(parts, 1)
        kernel = tf.get_variable(name + "kernel", [parts.shape[1], size])
        product = tf.matmul(parts, kernel)
        if start is None:
            return product
        bias = tf.get_variable(name + "bias", [size], initializer=tf.constant_initializer(start))
        return tf.nn.bias_add(product, bias)


class LSTMCell(_Cell):
    """Long short-term memory."""

    @property
    def state_size(self):
        return LSTMStateTuple(self.units, self.units)

    def __call__(self, inputs, state, scope=None):
        c, h = state
        with tf.variable_scope("lstm_cell"):
            i, j, f, o = tf.split(self.linear("", [inputs, h], 4 * self.units, 0.0), 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * self.activation(j)
        h = tf.sigmoid(o) * self.activation(c)
        return h, LSTMStateTuple(c, h)


class GRUCell(_Cell):
    """Gated recurrent unit."""

    @property
    def state_size(self):
        return self.units

    def __call__(self, inputs, state, scope=None):
        with tf.variable_scope("gru_cell"):
            r, u = tf.split(tf.sigmoid(self.linear("gates_", [inputs, state], 2 * self.units, 1.0)), 2, 1)
            c = tf.tanh(self.linear("candidate_", [inputs, r * state], self.units, 0.0))
        new = u * state + (1 - u) * c
        return new, new


class NASCell(_Cell):
    """The cell of Zoph and Le (2017)."""

    @property
    def state_size(self):
        return LSTMStateTuple(self.units, self.units)

    def __call__(self, inputs, state, scope=None):
        c, m = state
        with tf.variable_scope("nas_cell"):
            s = tf.split(self.linear("recurrent_", [m], 8 * self.units), 8, 1)
            x = tf.split(self.linear("", [inputs], 8 * self.units), 8, 1)
        one = [
            tf.sigmoid(x[0] + s[0]),
            tf.nn.relu(x[1] + s[1]),
            tf.sigmoid(x[2] + s[2]),
            tf.nn.relu(x[3] * s[3]),
            tf.tanh(x[4] + s[4]),
            tf.sigmoid(x[5] + s[5]),
            tf.tanh(x[6] + s[6]),
            tf.sigmoid(x[7] + s[7]),
        ]
        two = [
            tf.tanh(one[0] * one[1]),
            tf.tanh(one[2] + one[3]),
            tf.tanh(one[4] * one[5]),
            tf.sigmoid(one[6] + one[7]),
        ]
        c = tf.tanh(two[0] + c) * two[1]
        m = tf.tanh(c * tf.tanh(two[2] + two[3]))
        return m, LSTMStateTuple(c, m)


class MultiRNNCell:
    """Cells on top of one another."""

    def __init__(self, cells, state_is_tuple=True):
        self.cells = cells

    def zero_state(self, batch, dtype):
        return tuple(cell.zero_state(batch, dtype) for cell in self.cells)

    def __call__(self, inputs, states):
        new = []
        for i, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            with tf.variable_scope(f"multi_rnn_cell/cell_{i}"):
                inputs, state = cell(inputs, state)
            new.append(state)
        return inputs, tuple(new)


def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None, scope=None):
    """`contrib.legacy_seq2seq.rnn_decoder`."""
    with tf.variable_scope(scope or "rnn_decoder") as entered:
        state, outputs = initial_state, []
        for i, given in enumerate(decoder_inputs):
            if i > 0:
                entered.reuse_variables()
                given = given if loop_function is None else loop_function(outputs[-1], i)
            output, state = cell(given, state)
            outputs.append(output)
    return outputs, state


def sequence_loss_by_example(logits, targets, weights):
    """`contrib.legacy_seq2seq.sequence_loss_by_example`."""
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logit) * weight
        for logit, target, weight in zip(logits, targets, weights, strict=True)
    ]
    return tf.add_n(losses) / (tf.add_n(weights) + 1e-12)


class VocabularyProcessor:
    """`contrib.learn.preprocessing.VocabularyProcessor`."""

    def __init__(self, max_document_length):
        self.length, self.vocabulary_ = max_document_length, {"<UNK>": 0}

    def fit_transform(self, texts):
        for text in texts:
            for word in re.findall(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w\-]+", text):
                self.vocabulary_.setdefault(word, len(self.vocabulary_))
        return self.transform(texts)

    def transform(self, texts):
        for text in texts:
            words = re.findall(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w\-]+", text)[: self.length]
            row = np.zeros(self.length, np.int64)
            row[: len(words)] = [self.vocabulary_.get(word, 0) for word in words]
            yield row

    def save(self, name):
        with open(name, "wb") as file:
            pickle.dump((self.length, self.vocabulary_), file)

    @classmethod
    def restore(cls, name):
        made = cls(0)
        with open(name, "rb") as file:
            made.length, made.vocabulary_ = pickle.load(file)
        return made


class ScipyOptimizerInterface:
    """`contrib.opt.ScipyOptimizerInterface` without bounds and constraints."""

    def __init__(self, loss, method, options):
        self.loss, self.method, self.options = loss, method, options
        self.variables = tf.trainable_variables()
        self.gradient = tf.concat([tf.reshape(part, [-1]) for part in tf.gradients(loss, self.variables)], 0)
        self.places = [tf.placeholder(v.dtype.base_dtype, v.shape) for v in self.variables]
        self.assign = [v.assign(place) for v, place in zip(self.variables, self.places, strict=True)]

    def minimize(self, session, feed_dict, fetches, loss_callback):
        import scipy.optimize

        shapes = [v.shape.as_list() for v in self.variables]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

        def parts(x):
            flat = np.split(x.astype(np.float32), ends[:-1])
            return [part.reshape(shape) for part, shape in zip(flat, shapes, strict=True)]

        def evaluate(x):
            fed = dict(zip(self.variables, parts(x), strict=True))
            loss, gradient, *values = session.run([self.loss, self.gradient, *fetches], {**feed_dict, **fed})
            loss_callback(*values)
            return float(loss), gradient.astype(np.float64)

        start = np.concatenate([value.ravel() for value in session.run(self.variables)])
        found = scipy.optimize.minimize(evaluate, start, jac=True, method=self.method, options=self.options)
        session.run(self.assign, dict(zip(self.places, parts(found.x), strict=True)))


class _Images:
    """A set of `examples.tutorials.mnist`: batches of an epoch shuffled anew."""

    def __init__(self, images, labels):
        self.images = images.reshape(len(images), -1).astype(np.float32) * np.float32(1 / 255)
        self.labels = np.eye(10)[labels]
        self.num_examples, self.position = len(images), len(images)

    def next_batch(self, size):
        if self.position + size > self.num_examples:
            order = np.random.permutation(self.num_examples)
            self.images, self.labels, self.position = self.images[order], self.labels[order], 0
        part = slice(self.position, self.position + size)
        self.position += size
        return self.images[part], self.labels[part]


def read_data_sets(folder, one_hot):
    """`examples.tutorials.mnist.input_data.read_data_sets` of gzipped IDX files, with labels one-hot."""

    def read(name, rank):
        with gzip.open(Path(folder) / f"{name}-idx{rank}-ubyte.gz") as file:
            data = file.read()
        shape = np.frombuffer(data, ">u4", rank, 4)
        return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)

    sets = {name: _Images(read(f"{name}-images", 3), read(f"{name}-labels", 1)) for name in ("train", "t10k")}
    rest = sets["train"]
    rest.images, rest.labels, rest.num_examples, rest.position = rest.images[5000:], rest.labels[5000:], 55000, 55000
    return types.SimpleNamespace(train=rest, test=sets["t10k"])


_rnn = _module(
    "contrib.rnn",
    LSTMCell=LSTMCell,
    BasicLSTMCell=LSTMCell,
    GRUCell=GRUCell,
    NASCell=NASCell,
    MultiRNNCell=MultiRNNCell,
    LSTMStateTuple=LSTMStateTuple,
)
_seq2seq = _module("contrib.legacy_seq2seq", rnn_decoder=rnn_decoder, sequence_loss_by_example=sequence_loss_by_example)
_learn = _module("contrib.learn", preprocessing=types.SimpleNamespace(VocabularyProcessor=VocabularyProcessor))
_layers = _module(
    "contrib.layers",
    xavier_initializer=tf.glorot_uniform_initializer,
    layer_norm=layer_norm,
    fully_connected=fully_connected,
)
_opt = _module("contrib.opt", ScipyOptimizerInterface=ScipyOptimizerInterface)
_framework = _module("contrib.framework", nest=tf.nest)
_contrib = _module(
    "contrib", rnn=_rnn, legacy_seq2seq=_seq2seq, learn=_learn, layers=_layers, opt=_opt, framework=_framework
)
_data = _module("examples.tutorials.mnist.input_data", read_data_sets=read_data_sets)
_module(
    "examples", tutorials=_module("examples.tutorials", mnist=_module("examples.tutorials.mnist", input_data=_data))
)
tf.contrib = _contrib
tf.layers = _module("layers", dense=dense)
sys.modules["tensorflow"] = tf
