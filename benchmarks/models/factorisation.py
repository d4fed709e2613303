"""Matrix factorisation of ratings: embeddings of 50,000 users and 10,000 items with biases, Adagrad."""

import numpy as np

BATCH, USERS, ITEMS, WIDTH = 1024, 50_000, 10_000, 32


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    users, items = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    ratings = tf.placeholder(tf.float32, [None])
    user_table = tf.get_variable("users", [USERS, WIDTH])
    item_table = tf.get_variable("items", [ITEMS, WIDTH])
    user_bias = tf.get_variable("user_bias", [USERS], initializer=tf.zeros_initializer())
    item_bias = tf.get_variable("item_bias", [ITEMS], initializer=tf.zeros_initializer())
    of_users, of_items = tf.nn.embedding_lookup(user_table, users), tf.nn.embedding_lookup(item_table, items)
    biases = tf.nn.embedding_lookup(user_bias, users) + tf.nn.embedding_lookup(item_bias, items)
    error = tf.reduce_sum(of_users * of_items, axis=1) + biases - ratings
    loss = tf.reduce_mean(tf.square(error)) + 0.02 * (tf.nn.l2_loss(of_users) + tf.nn.l2_loss(of_items)) / BATCH
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {
            users: random.randint(0, USERS, BATCH),
            items: random.randint(0, ITEMS, BATCH),
            ratings: random.randn(BATCH).astype(np.float32),
        }
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
