"""A program for one worker of several with a copy of the variables each: trains until a step, and tells what it has."""

import sys
import time

import anabranch as tf

_, index, _, workers, folder, last_step = sys.argv[1:]
cluster = tf.train.ClusterSpec({"worker": workers.split(",")})
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=int(index))
server = tf.train.Server(cluster, job_name="worker", task_index=int(index))
print("started", flush=True)
strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
with strategy.scope():
    step = tf.train.get_or_create_global_step()

    def work():  # gradients of 80 kB, which meet in parts
        w = tf.get_variable("w", [100, 200], initializer=tf.random_normal_initializer())
        loss = tf.reduce_mean(tf.square(tf.random_normal([8, 100]) @ w - 1.0))
        return tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)

    train = strategy.experimental_run_v2(work)
    bits = tf.bitcast(tf.trainable_variables()[0], tf.int32)
    digest = tf.reduce_sum(tf.cast(bits, tf.int64))  # the same in whichever order
    with tf.train.MonitoredTrainingSession(
        server.target,
        index == "0",
        folder,
        save_checkpoint_steps=10,
        save_summaries_steps=None,
        log_step_count_steps=None,
        config=tf.SessionOptions(tier="compiled"),  # tiers differ in the last bit, and change at other steps in each
        hooks=[tf.train.StopAtStepHook(last_step=int(last_step))],
    ) as session:
        while not session.should_stop():
            session.run(train)
            reached, value = session.run([step, digest])
            print("step", reached, value, flush=True)
            time.sleep(0.02)
print("ended", value, flush=True)
