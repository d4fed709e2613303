"""Kills processes at random moments while they save, and asks whether all that they said to have saved is whole.

    python tools/kills.py --count 1000 --seed 1

A process saves without end in one of the ways below, says on a pipe what is complete, and is killed (``SIGKILL``)
within a third of a second. Then a reader must find at least what was said, whole: all variables of a checkpoint hold
the number of one and the same step; a SavedModel folder that counts as one loads, with the number that its name says;
of an event file every record can be read up to the last one that was flushed; a program that trains on a pipeline and
saves it with its variables has been given, over all processes, exactly the elements of one that was never killed, each
once and in order, up to the step of its checkpoint. The next process goes on in the same
folder, with what the dead one has left lying; only a half-written SavedModel folder it removes itself, as nobody may
export into a folder that is there.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anabranch as tf

LONGEST = 0.35
"""Seconds within which a process is killed after it has begun to save."""
SIZES = (10, 1000, 200_000)


def _model() -> tuple[Any, Any, Any]:
    step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False)
    values = [tf.get_variable(f"v{size}", [size], tf.float32, tf.zeros_initializer()) for size in SIZES]
    wanted = tf.placeholder(tf.int64, [])
    sets = [step.assign(wanted), *[v.assign(tf.fill(v.shape, tf.cast(wanted, tf.float32))) for v in values]]
    return step, wanted, tf.group(*sets)


def _save(folder: str, first: int, say: Callable[[int], None], **options: Any) -> None:
    _, wanted, sets = _model()
    saver = tf.train.Saver(max_to_keep=2, **options)
    with _session() as session:
        for number in range(first, sys.maxsize):
            session.run(sets, {wanted: number})
            saver.save(session, f"{folder}/model", global_step=number)
            saver.wait()
            saver.save(session, f"{folder}/same", write_meta_graph=False, write_state=False)
            saver.wait()
            say(number)


def _export(folder: str, first: int, say: Callable[[int], None]) -> None:
    step, wanted, sets = _model()
    with _session() as session:
        for number in range(first, sys.maxsize):
            session.run(sets, {wanted: number})
            shutil.rmtree(f"{folder}/{number}", ignore_errors=True)
            tf.saved_model.simple_save(session, f"{folder}/{number}", {"wanted": wanted}, {"step": step})
            say(number)
            shutil.rmtree(f"{folder}/{number - 3}", ignore_errors=True)


def _log(folder: str, first: int, say: Callable[[int], None]) -> None:
    writer = tf.summary.FileWriter(folder, filename_suffix=f".{first}")
    for number in range(first, sys.maxsize):
        value = tf.Summary.Value(tag="number", simple_value=number)
        writer.add_summary(tf.Summary(value=[value] * (1 + number % 400)), number)
        if number % 5 == 0:
            writer.flush()
            say(number)


def _pipeline(folder: str) -> tuple[Any, Any]:
    """An iterator over records of files, shuffled, drawn upon and prefetched; and its next element."""
    names = []
    for number in range(3):
        names.append(f"{folder}/records{number}")
        if not os.path.exists(names[-1]):
            with tf.io.TFRecordWriter(f"{names[-1]}.new") as writer:
                for i in range(40):
                    writer.write(str(number * 40 + i).encode())
            os.replace(f"{names[-1]}.new", names[-1])
    dataset = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, 2, 3)
    dataset = dataset.map(lambda text: tf.strings.to_number(text, tf.int64)).shuffle(16, seed=5).repeat()
    dataset = dataset.map(lambda x: x + 1000 * tf.random_uniform([], 0, 9, tf.int64, seed=7)).prefetch(2)
    iterator = dataset.batch(3).make_initializable_iterator()
    return iterator, iterator.get_next()


def _train(folder: str, first: int, say: Callable[[int], None], **options: Any) -> None:
    iterator, element = _pipeline(folder)
    step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False)
    history = tf.get_variable("history", [], tf.int64, tf.zeros_initializer(), trainable=False)
    train = tf.group(history.assign(history * 31 + tf.reduce_sum(element * [1, 3, 7])), step.assign_add(1))
    place = tf.data.experimental.make_saveable_from_iterator(iterator)
    saver = tf.train.Saver([step, history, place], max_to_keep=2, **options)
    with _session() as session:
        session.run([tf.global_variables_initializer(), iterator.initializer])
        last = tf.train.latest_checkpoint(folder)
        if last:
            saver.restore(session, last)
        for number in range(int(session.run(step)) + 1, sys.maxsize):
            session.run(train)
            if number % 3 == 0:
                saver.save(session, f"{folder}/model", global_step=number, write_meta_graph=False)
                saver.wait()
                say(number)


def _session() -> Any:
    return tf.Session(config=tf.SessionOptions(tier="interpreted"))  # which a forked process may use


def _check_checkpoint(folder: str, said: int) -> int:
    found = []
    for path in (tf.train.latest_checkpoint(folder), f"{folder}/same"):
        reader = tf.train.load_checkpoint(path)
        number = int(reader.get_tensor("step"))
        for size in SIZES:
            assert np.all(reader.get_tensor(f"v{size}") == number), f"{path} is torn"
        assert number >= said, f"{path} holds step {number}, and {said} was said to be saved"
        found.append(number)
    return max(found)


def _check_models(folder: str, said: int) -> int:
    numbers = []
    for place in Path(folder).iterdir():
        if not tf.saved_model.loader.maybe_saved_model_directory(str(place)) or int(place.name) < said - 1:
            continue  # older ones are being removed
        with tf.Graph().as_default(), _session() as session:
            tf.saved_model.loader.load(session, ["serve"], str(place))
            names = ["step:0", *[f"v{size}:0" for size in SIZES]]
            for value in session.run(names):
                assert np.all(value == int(place.name)), f"{place} is torn"
        numbers.append(int(place.name))
    assert max(numbers) >= said, f"{max(numbers)} is the last model, and {said} was said to be saved"
    return max(numbers)


def _check_events(folder: str, said: int) -> int:
    last = 0
    for path in sorted(Path(folder).iterdir(), key=lambda path: int(path.suffix[1:])):
        before = last
        try:
            for event in tf.train.summary_iterator(str(path)):
                if event.HasField("summary"):
                    assert event.step == last + 1 or last == before, f"{path} goes from {last} to {event.step}"
                    last = event.step
        except tf.errors.DataLossError:
            pass  # the last record may be torn
    assert last >= said, f"{last} is the last event, and {said} was flushed"
    return last


class _Undisturbed:
    """What a program that is never killed has seen after each step."""

    def __init__(self) -> None:
        self.histories: dict[str, list[int]] = {}

    def after(self, folder: str, number: int) -> int:
        """The number that stands for the elements of the first steps."""
        histories = self.histories.setdefault(folder, [0])
        if number >= len(histories):
            history = 0
            with tf.Graph().as_default(), _session() as session:
                iterator, element = _pipeline(folder)
                session.run(iterator.initializer)
                histories[:] = [0]
                for _ in range(number + 2000):
                    total = int(np.sum(session.run(element) * np.array([1, 3, 7])))
                    history = (history * 31 + total + 2**63) % 2**64 - 2**63
                    histories.append(history)
        return histories[number]


_undisturbed = _Undisturbed()


def _check_training(folder: str, said: int) -> int:
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder))
    number, history = int(reader.get_tensor("step")), int(reader.get_tensor("history"))
    assert number >= said, f"the checkpoint holds step {number}, and {said} was said to be saved"
    expected = _undisturbed.after(folder, number)
    assert history == expected, f"after step {number} other elements were seen than without kills"
    return number


WAYS: dict[str, tuple[Callable[..., None], Callable[[str, int], int], dict[str, Any]]] = {
    "Saver": (_save, _check_checkpoint, {}),
    "Saver, sharded": (_save, _check_checkpoint, {"sharded": True}),
    "Saver, version 1": (_save, _check_checkpoint, {"write_version": 1}),
    "Saver, asynchronous": (_save, _check_checkpoint, {"asynchronous": True}),
    "Saver, with a pipeline": (_train, _check_training, {}),
    "Saver, with a pipeline, asynchronous": (_train, _check_training, {"asynchronous": True}),
    "SavedModel": (_export, _check_models, {}),
    "event files": (_log, _check_events, {}),
}


def kill_once(way: str, folder: str, first: int, delay: float) -> tuple[int, bool]:
    """Has a process save from a number on and kills it; the last number that is whole, and whether it came to save.

    Raises:
        AssertionError: what was said to be saved is not whole.
    """
    save, check, options = WAYS[way]
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        try:
            with tf.Graph().as_default():
                save(folder, first, lambda number: os.write(into, number.to_bytes(8, "little")), **options)
        finally:
            os._exit(1)
    os.close(into)
    begun = os.read(out, 8)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    told = begun
    while more := os.read(out, 1 << 16):
        told += more
    os.close(out)
    assert status == signal.SIGKILL, f"the process ended by itself, with status {status}"
    said = int.from_bytes(told[len(told) // 8 * 8 - 8 :][:8], "little")
    return check(folder, said), bool(begun)


def main(arguments: Sequence[str] | None = None) -> int:
    """Kills and prints what was lost; 0 if nothing was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="processes in all")
    parser.add_argument("--way", choices=[*WAYS], action="append", help="kill only while saving in this way")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="kill no further one after so many")
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    tf.logging.set_verbosity(tf.logging.ERROR)
    ways = options.way or list(WAYS)
    folders = {way: tempfile.mkdtemp() for way in ways}
    reached = dict.fromkeys(ways, 0)
    killed = dict.fromkeys(ways, 0)
    lost: list[str] = []
    started = time.monotonic()
    try:
        for number in range(options.count):
            if time.monotonic() - started > options.seconds:
                break
            way = ways[number % len(ways)]
            try:
                reached[way], _ = kill_once(way, folders[way], reached[way] + 1, chance.uniform(0.0, LONGEST))
            except Exception as problem:
                lost.append(f"{way}: {type(problem).__name__}: {problem}"[:500])
                print(lost[-1], flush=True)
            killed[way] += 1
    finally:
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
    for way, count in killed.items():
        print(f"{way:36} killed {count:5} times, {reached[way]:6} saved")
    print(f"{'all':36} killed {sum(killed.values()):5} times, {len(lost)} with something lost or torn")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
