"""A small encoder trained with BERT's own model and optimizer: prints each step's loss and the number of variables.

Runs in the checkout of the repository, whose modules it imports.
"""

import modeling
import numpy as np
import optimization
import tensorflow as tf

config = modeling.BertConfig(
    vocab_size=60,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=32,
)
random = np.random.RandomState(0)
ids = tf.constant(random.randint(0, 60, (8, 16)), tf.int32)
labels = tf.constant(random.randint(0, 2, 8), tf.int32)
tf.set_random_seed(1)
model = modeling.BertModel(config=config, is_training=True, input_ids=ids, input_mask=tf.ones_like(ids))
weights = tf.get_variable("output_weights", [2, 32], initializer=tf.truncated_normal_initializer(stddev=0.02))
bias = tf.get_variable("output_bias", [2], initializer=tf.zeros_initializer())
logits = tf.nn.bias_add(tf.matmul(model.get_pooled_output(), weights, transpose_b=True), bias)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
train = optimization.create_optimizer(loss, 3e-3, 100, 0, False)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(15):
        print("step", step, "loss", session.run([loss, train])[0])
    print("last loss", session.run(loss), "trainable variables", len(tf.trainable_variables()))
