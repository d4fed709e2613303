"""A recurrent network that tells good reviews from bad ones, sentence by sentence.

python examples/sentiment.py --positive FILE --negative FILE [--epochs N]

Each file has one sentence a line. Shows `tf.nn.bidirectional_dynamic_rnn` over sentences of different lengths
(`sequence_length`), with embeddings that are learned from nothing, dropout, and batches of sentences that are about
equally long. It prints the accuracy on a tenth of the sentences that it does not learn from.
"""

import collections
import re
import time

import numpy as np

import anabranch as tf

flags = tf.app.flags
flags.DEFINE_string("positive", None, "Sentences that praise, one a line.")
flags.DEFINE_string("negative", None, "Sentences that do not, one a line.")
flags.DEFINE_string("encoding", "latin-1", "Encoding of the files.")
flags.DEFINE_integer("epochs", 4, "How often each sentence is seen.")
flags.DEFINE_integer("max_steps", 0, "Stop after so many steps, if not 0.")
flags.DEFINE_integer("batch", 50, "Sentences in a batch.")
flags.DEFINE_integer("embedding", 64, "Width of a word's vector.")
flags.DEFINE_integer("width", 64, "Width of the cell in each direction.")
flags.DEFINE_float("keep", 0.5, "Share of features that dropout keeps.")
flags.DEFINE_float("rate", 2e-3, "Learning rate.")
flags.DEFINE_integer("seed", 1, "Seed of weights, dropout and the choice of sentences held out.")
FLAGS = flags.FLAGS

WORD = re.compile(r"[\w']+|[^\w\s]")
PAD, UNKNOWN = 0, 1
BUCKET = 16  # lengths are rounded up to multiples: few different shapes, little padding


def read(path):
    """Sentences as lists of words."""
    with open(path, encoding=FLAGS.encoding) as file:
        return [WORD.findall(line.lower()) for line in file if line.strip()]


def load():
    """Training and held-out examples ``(numbers of words, label)``, and how many words there are."""
    examples = [(words, 1) for words in read(FLAGS.positive)] + [(words, 0) for words in read(FLAGS.negative)]
    np.random.RandomState(FLAGS.seed).shuffle(examples)
    held_out = max(len(examples) // 10, 1)
    counts = collections.Counter(word for words, _ in examples[held_out:] for word in words)
    known = [word for word, count in counts.most_common() if count > 1]
    number = {word: i + 2 for i, word in enumerate(known)}
    numbered = [([number.get(word, UNKNOWN) for word in words], label) for words, label in examples]
    return numbered[held_out:], numbered[:held_out], len(known) + 2


def batches(examples, random=None):
    """Batches ``(words [batch, time], lengths, labels)`` of about equally long sentences, shuffled by ``random``."""
    order = np.arange(len(examples)) if random is None else random.permutation(len(examples))
    order = sorted(order, key=lambda i: -(-len(examples[i][0]) // BUCKET))
    parts = [order[i : i + FLAGS.batch] for i in range(0, len(order), FLAGS.batch)]
    if random is not None:
        random.shuffle(parts)
    for part in parts:
        lengths = np.array([len(examples[i][0]) for i in part], np.int32)
        longest = -(-lengths.max() // BUCKET) * BUCKET
        words = np.full([len(part), longest], PAD, np.int32)
        for row, i in zip(words, part, strict=True):
            row[: len(examples[i][0])] = examples[i][0]
        yield words, lengths, np.array([examples[i][1] for i in part], np.int64)


class Model:
    """The classifier and its training step."""

    def __init__(self, words):
        self.words = tf.placeholder(tf.int32, [None, None], name="words")
        self.lengths = tf.placeholder(tf.int32, [None], name="lengths")
        self.labels = tf.placeholder(tf.int64, [None], name="labels")
        self.keep = tf.placeholder_with_default(1.0, [], name="keep")
        table = tf.get_variable("words", [words, FLAGS.embedding], initializer=tf.random_uniform_initializer(-0.1, 0.1))
        rows = tf.nn.dropout(tf.nn.embedding_lookup(table, self.words), keep_prob=self.keep)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(FLAGS.width),
            tf.nn.rnn_cell.GRUCell(FLAGS.width),
            rows,
            sequence_length=self.lengths,
            dtype=tf.float32,
        )
        # Outputs past a sentence's end are zeros: the sum over time is one over its words.
        length = tf.cast(tf.maximum(self.lengths, 1), tf.float32)[:, tf.newaxis]
        features = tf.reduce_sum(tf.concat(outputs, 2), 1) / length
        logits = tf.layers.dense(tf.nn.dropout(features, keep_prob=self.keep), 2)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = tf.reduce_mean(losses)
        self.right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), self.labels), tf.int32))
        self.step = tf.train.get_or_create_global_step()
        self.train = tf.train.AdamOptimizer(FLAGS.rate).minimize(self.loss, global_step=self.step)

    def feed(self, batch, keep=1.0):
        words, lengths, labels = batch
        return {self.words: words, self.lengths: lengths, self.labels: labels, self.keep: keep}


def accuracy(session, model, examples):
    """Share of the examples that are told rightly."""
    return sum(session.run(model.right, model.feed(batch)) for batch in batches(examples)) / len(examples)


def main(_):
    learned, held_out, words = load()
    print(f"{len(learned)} sentences to learn from, {len(held_out)} held out, {words} words")
    tf.set_random_seed(FLAGS.seed)
    random = np.random.RandomState(FLAGS.seed)
    model = Model(words)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for epoch in range(FLAGS.epochs):
            losses, started = [], time.time()
            for batch in batches(learned, random):
                loss, _ = session.run([model.loss, model.train], model.feed(batch, FLAGS.keep))
                losses.append(loss)
                if session.run(model.step) == FLAGS.max_steps:
                    break
            took = (time.time() - started) / len(losses)
            print(
                f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, accuracy held out "
                f"{accuracy(session, model, held_out):.3f}, {took * 1000:.0f} ms a step"
            )
            if session.run(model.step) == FLAGS.max_steps:
                break


if __name__ == "__main__":
    flags.mark_flags_as_required(["positive", "negative"])
    tf.app.run()
