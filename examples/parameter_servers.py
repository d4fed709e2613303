"""A line is fitted by several workers, with its variables on parameter servers.

Written as for TensorFlow 1.x: started once per task, with --job_name, --task_index and the addresses of all tasks. Each
worker builds the same graph, with its own task as the default device, and trains the shared variables; the first one,
the chief, initialises them and writes checkpoints. With --sync the workers make each step together.
"""

import argparse
import time

import numpy as np

import anabranch as tf


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job_name", required=True, choices=["ps", "worker"])
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--ps_hosts", required=True, help="host:port of each parameter server, with commas")
    parser.add_argument("--worker_hosts", required=True, help="host:port of each worker, with commas")
    parser.add_argument("--train_dir", help="folder of checkpoints, which all tasks see")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
    parser.add_argument("--sync", action="store_true")
    return parser.parse_args()


def main():
    given = options()
    cluster = tf.train.ClusterSpec({"ps": given.ps_hosts.split(","), "worker": given.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=given.job_name, task_index=given.task_index)
    if given.job_name == "ps":
        server.join()
    is_chief = given.task_index == 0
    workers = cluster.num_tasks("worker")

    device = tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{given.task_index}")
    with tf.device(device):
        x = tf.placeholder(tf.float32, [None, 2])
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - tf.matmul(x, [[1.0], [2.0]]) - 3.0))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        hooks = [tf.train.StopAtStepHook(last_step=given.steps)]
        if given.sync:
            with tf.device(f"/job:worker/task:{given.task_index}"):
                optimizer = tf.train.SyncReplicasOptimizer(optimizer, workers)
                train = optimizer.minimize(loss, global_step=step)
                hooks.append(optimizer.make_session_run_hook(is_chief))
        else:
            train = optimizer.minimize(loss, global_step=step)

    generator = np.random.default_rng(given.task_index)
    value, reached, own = float("nan"), 0, 0
    # A worker needs the parameter servers and itself; of the other workers it knows nothing.
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{given.task_index}"])
    with tf.train.MonitoredTrainingSession(
        server.target, is_chief, given.train_dir if is_chief else None, hooks=hooks, config=config,
        save_checkpoint_steps=20, save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None,
    ) as session:  # fmt: skip
        while not session.should_stop():
            _, reached, value = session.run([train, step, loss], {x: generator.normal(size=(16, 2))})
            own += 1
            time.sleep(given.pause)
    print(f"step {reached}, {own} of them here, loss {value:.2g}", flush=True)


if __name__ == "__main__":
    main()
