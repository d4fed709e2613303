"""A program for one task, as users write it: waits as a parameter server, or trains as a worker until a step."""

import sys
import time

import numpy as np

import anabranch as tf

job, index, ps, workers, folder, last_step = sys.argv[1:]
index, last_step = int(index), int(last_step)
cluster = tf.train.ClusterSpec({"ps": ps.split(","), "worker": workers.split(",")})
server = tf.train.Server(cluster, job_name=job, task_index=index)
print("started", flush=True)
if job == "ps":
    server.join()
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
    x = tf.placeholder(tf.float32, [None, 2])
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - tf.matmul(x, [[1.0], [2.0]]) - 3.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
generator = np.random.default_rng(index)
config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
options = {"checkpoint_dir": folder, "save_checkpoint_steps": 5, "save_summaries_steps": None}
with tf.train.MonitoredTrainingSession(
    server.target,
    index == 0,
    hooks=[tf.train.StopAtStepHook(last_step=last_step)],
    config=config,
    log_step_count_steps=None,
    **options,
) as session:
    while not session.should_stop():
        _, reached, value = session.run([train, step, loss], {x: generator.normal(size=(8, 2))})
        print("step", reached, value, flush=True)
        time.sleep(0.02)
print("ended", flush=True)
