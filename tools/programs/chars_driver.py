"""Trains a character model whose cell's state is one tensor for each layer, such as a GRU's, for one epoch.

Runs in the checkout of the repository, whose modules it imports. The repository's own script feeds each layer's state
as a pair, as an LSTM's is.
"""

import argparse
import os
import pickle

import tensorflow as tf
from model import Model
from utils import TextLoader

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="gru")
parser.add_argument("--save_dir", required=True)
given = parser.parse_args()
args = argparse.Namespace(
    rnn_size=128,
    num_layers=2,
    model=given.model,
    batch_size=50,
    seq_length=50,
    grad_clip=5.0,
    output_keep_prob=1.0,
    input_keep_prob=1.0,
)
loader = TextLoader("data/tinyshakespeare", args.batch_size, args.seq_length)
args.vocab_size = loader.vocab_size
os.makedirs(given.save_dir, exist_ok=True)
for name, value in (("config", args), ("chars_vocab", (loader.chars, loader.vocab))):
    with open(os.path.join(given.save_dir, f"{name}.pkl"), "wb") as file:
        pickle.dump(value, file)
model = Model(args)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver(tf.global_variables())
    session.run(tf.assign(model.lr, 0.002))
    state = session.run(model.initial_state)
    for batch in range(loader.num_batches):
        x, y = loader.next_batch()
        feed = {model.input_data: x, model.targets: y, model.initial_state: state}
        loss, state, _ = session.run([model.cost, model.final_state, model.train_op], feed)
        print(f"{batch}/{loader.num_batches}, train_loss = {loss:.3f}")
    saver.save(session, os.path.join(given.save_dir, "model.ckpt"), global_step=loader.num_batches)
