"""A recurrent network that learns to write like a text, letter by letter.

python examples/char_rnn.py --data FILE [--steps N] [--train_dir DIR]

Shows `tf.nn.dynamic_rnn` over a multi-layer LSTM whose state is carried from one batch to the next, gradients that are
clipped, and a `tf.while_loop` that draws letters one after the other inside of a single `session.run`. Every so often
it prints the loss on a part of the text that it does not learn from, in nats per letter, and how it would go on with
the first line of that part, after a ``|``.
"""

import os
import time

import numpy as np

import anabranch as tf

flags = tf.app.flags
flags.DEFINE_string("data", None, "The text, UTF-8.")
flags.DEFINE_integer("steps", 2000, "Training steps.")
flags.DEFINE_integer("width", 128, "Width of each layer.")
flags.DEFINE_integer("layers", 1, "Number of LSTM layers.")
flags.DEFINE_integer("batch", 32, "Sequences in a batch.")
flags.DEFINE_integer("length", 50, "Letters of a sequence that gradients go through.")
flags.DEFINE_float("rate", 5e-3, "Learning rate at first; it falls to a tenth by the last step.")
flags.DEFINE_float("clip", 5.0, "Largest norm of all gradients together.")
flags.DEFINE_integer("report", 500, "Steps between reports.")
flags.DEFINE_integer("sample", 300, "Letters of a sample.")
flags.DEFINE_float("temperature", 0.7, "Below 1 it writes what is likely, above it is bolder.")
flags.DEFINE_integer("seed", None, "Seed of weights and samples, to repeat a run bit for bit.")
flags.DEFINE_string("train_dir", None, "Where checkpoints are; a run there goes on where the last one stopped.")
FLAGS = flags.FLAGS


def read(path):
    """The text as numbers of letters: what is learned from, what is held out, and the letters."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    numbers = np.array([number[letter] for letter in text], np.int32)
    held_out = max(len(numbers) // 20, 2)
    return numbers[:-held_out], numbers[-held_out:], letters


def batches(numbers, batch, length):
    """Endless ``(letters, letters that follow, whether the state begins anew)``: each row goes on where it was."""
    steps = (len(numbers) - 1) // (batch * length)
    if not steps:
        raise ValueError(
            f"{len(numbers)} letters to learn from are fewer than --batch {batch} times --length {length}; "
            "lower them or give a longer text"
        )
    inputs = numbers[: steps * batch * length].reshape(batch, -1)
    targets = numbers[1 : steps * batch * length + 1].reshape(batch, -1)
    while True:
        for i in range(steps):
            part = slice(i * length, (i + 1) * length)
            yield inputs[:, part], targets[:, part], i == 0


class Model:
    """The network over a batch of sequences, and its training step."""

    def __init__(self, letters):
        self.letters = letters
        cells = [tf.nn.rnn_cell.LSTMCell(FLAGS.width) for _ in range(FLAGS.layers)]
        self.cell = tf.nn.rnn_cell.MultiRNNCell(cells)
        self.inputs = tf.placeholder(tf.int32, [None, None], name="inputs")
        self.targets = tf.placeholder(tf.int32, [None, None], name="targets")
        # The state that a batch begins with: zeros unless the last batch's is fed.
        self.initial = self.cell.zero_state(tf.shape(self.inputs)[0], tf.float32)
        self.table = tf.get_variable("letters", [len(letters), FLAGS.width])
        rows = tf.nn.embedding_lookup(self.table, self.inputs)
        with tf.variable_scope("rnn") as self.scope:
            outputs, self.final = tf.nn.dynamic_rnn(self.cell, rows, initial_state=self.initial, scope=self.scope)
        self.weights = tf.get_variable("softmax/kernel", [FLAGS.width, len(letters)])
        self.bias = tf.get_variable("softmax/bias", [len(letters)], initializer=tf.zeros_initializer())
        self.predicted = logits = self.logits(tf.reshape(outputs, [-1, FLAGS.width]))
        self.loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(self.targets, [-1]), logits=logits)
        )
        self.step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(FLAGS.rate, self.step, max(FLAGS.steps, 1), 0.1)
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(self.loss, variables), FLAGS.clip)
        optimizer = tf.train.AdamOptimizer(rate)
        self.train = optimizer.apply_gradients(zip(gradients, variables, strict=True), global_step=self.step)

    def logits(self, hidden):
        return tf.matmul(hidden, self.weights) + self.bias

    def writer(self, count):
        """Letters that go on from the last one of ``inputs``, each drawn as the network expects it."""
        written = tf.TensorArray(tf.int32, size=count)

        def write(i, logits, state, written):
            letter = tf.multinomial(logits / FLAGS.temperature, 1, output_dtype=tf.int32)[:, 0]
            with tf.variable_scope(self.scope, reuse=True):
                output, state = self.cell(tf.nn.embedding_lookup(self.table, letter), state)
            return i + 1, self.logits(output), state, written.write(i, letter)

        start = (0, self.predicted[-1:], self.final, written)
        return tf.while_loop(lambda i, *_: i < count, write, start, back_prop=False)[-1].concat()


def evaluate(session, model, numbers):
    """Mean loss over a text, in batches of one sequence whose state goes on."""
    length = min(1000, len(numbers) - 1)
    state, losses = None, []
    for start in range(0, len(numbers) - length, length):
        feed = {
            model.inputs: [numbers[start : start + length]],
            model.targets: [numbers[start + 1 : start + length + 1]],
        }
        if state is not None:
            feed[model.initial] = state
        loss, state = session.run([model.loss, model.final], feed)
        losses.append(loss)
    return float(np.mean(losses))


def main(_):
    learned, held_out, letters = read(FLAGS.data)
    print(f"{len(learned)} letters to learn from, {len(held_out)} held out, {len(letters)} different ones")
    if FLAGS.seed is not None:
        tf.set_random_seed(FLAGS.seed)
    model = Model(letters)
    sample = model.writer(FLAGS.sample)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        if FLAGS.train_dir:
            tf.gfile.MakeDirs(FLAGS.train_dir)
            latest = tf.train.latest_checkpoint(FLAGS.train_dir)
            if latest:
                saver.restore(session, latest)
                print("goes on from", latest)
        state, losses, started = None, [], time.time()
        for inputs, targets, anew in batches(learned, FLAGS.batch, FLAGS.length):
            if session.run(model.step) >= FLAGS.steps:
                break
            feed = {model.inputs: inputs, model.targets: targets}
            if state is not None and not anew:
                feed[model.initial] = state
            loss, state, _, step = session.run([model.loss, model.final, model.train, model.step], feed)
            losses.append(loss)
            if (step + 1) % FLAGS.report == 0 or step + 1 == FLAGS.steps:
                took = (time.time() - started) / len(losses)
                print(
                    f"step {step + 1}: loss {np.mean(losses):.3f}, held out {evaluate(session, model, held_out):.3f}, "
                    f"{took * 1000:.0f} ms a step"
                )
                begin = held_out[: FLAGS.length]
                drawn = session.run(sample, {model.inputs: [begin]})
                print("".join(letters[i] for i in begin) + "|" + "".join(letters[i] for i in drawn))
                if FLAGS.train_dir:
                    saver.save(session, os.path.join(FLAGS.train_dir, "model"), global_step=model.step)
                losses, started = [], time.time()


if __name__ == "__main__":
    flags.mark_flag_as_required("data")
    tf.app.run()
