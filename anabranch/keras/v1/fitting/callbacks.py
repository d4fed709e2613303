"""``tf.keras.callbacks`` of version 1: what is called between steps and epochs."""

from __future__ import annotations

import collections
import csv
import json
import os
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.fitting.progress import Progbar


class Callback:
    """Base of callbacks: ``model`` and ``params`` are set before the first call."""

    def __init__(self) -> None:
        self.validation_data: Any = None
        self.model: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Learn what the run is like."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Learn which model it is."""
        self.model = model

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a step of training."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of training."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a step of training."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of training."""
        self.on_batch_end(batch, logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a step of evaluation."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of evaluation."""

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a step of prediction."""

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of prediction."""

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""

    def on_train_end(self, logs: Any = None) -> None:
        """After training."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Before evaluation."""

    def on_test_end(self, logs: Any = None) -> None:
        """After evaluation."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before prediction."""

    def on_predict_end(self, logs: Any = None) -> None:
        """After prediction."""


class BaseLogger(Callback):
    """Nothing more: means over an epoch are those of the metrics themselves."""

    def __init__(self, stateful_metrics: Any = None) -> None:
        super().__init__()
        self.stateful_metrics = set(stateful_metrics or [])


class TerminateOnNaN(Callback):
    """Stop training when the loss is not a finite number."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of training."""
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class History(Callback):
    """The logs of all epochs, in ``history``."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""
        self.epoch, self.history = [], {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class ProgbarLogger(Callback):
    """Print the progress of each epoch.

    Args:
        count_mode: count ``'samples'`` or ``'steps'``.
        stateful_metrics: names of values that are shown as they are.
    """

    def __init__(self, count_mode: str = "samples", stateful_metrics: Any = None, mode: str = "train") -> None:
        super().__init__()
        if count_mode not in ("samples", "steps"):
            raise ValueError(
                f"Unknown `count_mode`: {count_mode}\n"
                + errors.message(repr(count_mode), "'samples' or 'steps'", "'samples'")
            )
        self.use_steps, self.mode = count_mode == "steps", mode
        self.stateful_metrics = set(stateful_metrics or [])
        self.progbar: Any = None
        self.seen = 0

    def _begin(self) -> None:
        self.seen = 0
        target = self.params["steps" if self.use_steps else "samples"]
        names = self.params.get("metrics") or []
        self.progbar = Progbar(
            target,
            verbose=self.params["verbose"],
            stateful_metrics={*self.stateful_metrics, *[n for n in names if n not in ("loss", "val_loss")]},
            unit_name="step" if self.use_steps else "sample",
        )

    def _batch(self, logs: Any) -> None:
        self.seen += 1 if self.use_steps else (logs or {}).get("size", 1)
        values = [(name, logs[name]) for name in self.params.get("metrics") or [] if name in logs]
        if self.params["verbose"] == 1 and (self.progbar.target is None or self.seen < self.progbar.target):
            self.progbar.update(self.seen, values)
        else:
            self._last = values

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""
        if self.params.get("epochs", 1) > 1:
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._begin()

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of training."""
        self._batch(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        names = self.params.get("metrics") or []
        values = [(name, (logs or {})[name]) for name in names if name in (logs or {})]
        self.progbar.stateful_metrics = set(names)
        self.progbar.target = self.progbar.target or self.seen
        self.progbar.update(max(self.seen, 1) if self.seen < self.progbar.target else self.progbar.target, values)

    def on_test_begin(self, logs: Any = None) -> None:
        """Before evaluation."""
        if self.mode == "test":
            self._begin()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of evaluation."""
        if self.mode == "test":
            self._batch(logs)

    def on_test_end(self, logs: Any = None) -> None:
        """After evaluation."""
        if self.mode == "test":
            self.on_epoch_end(0, logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before prediction."""
        self._begin()

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of prediction."""
        self._batch(logs)

    def on_predict_end(self, logs: Any = None) -> None:
        """After prediction."""
        self.on_epoch_end(0, logs)


def _comparison(mode: str, monitor: str) -> tuple[Any, float]:
    """How a watched value gets better, and the worst value."""
    if mode == "max" or (mode != "min" and ("acc" in monitor or monitor.startswith("fmeasure"))):
        return np.greater, -np.inf
    return np.less, np.inf


class ModelCheckpoint(Callback):
    """Write the model after epochs.

    Args:
        filepath: where to; may name the epoch and logs: ``weights.{epoch:02d}-{val_loss:.2f}.hdf5``.
        monitor: what is watched.
        verbose: 1 prints a line for each file.
        save_best_only: only when it is better than before.
        save_weights_only: the weights alone.
        mode: ``'min'``, ``'max'`` or, by the name of what is watched, ``'auto'``.
        save_freq: ``'epoch'``, or a number of samples.
        period: number of epochs between two files.
    """

    def __init__(
        self,
        filepath: str,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if isinstance(save_freq, int) and "period" not in kwargs and save_freq < 100:
            kwargs["period"], save_freq = save_freq, "epoch"  # the seventh argument was `period` before 1.14
        self.period = kwargs.pop("period", 1)
        self.load_weights_on_restart = kwargs.pop("load_weights_on_restart", False)
        if kwargs or (save_freq != "epoch" and not isinstance(save_freq, int)):
            raise ValueError(
                f"Unrecognized arguments: {sorted(kwargs)} or save_freq: {save_freq}\n"
                + errors.message(f"{kwargs}, {save_freq!r}", "'epoch' or a number of samples", "save_freq='epoch'")
            )
        self.filepath, self.monitor, self.verbose = filepath, monitor, verbose
        self.save_best_only, self.save_weights_only, self.save_freq = save_best_only, save_weights_only, save_freq
        self.monitor_op, self.best = _comparison(mode, monitor)
        self.epochs_since_last_save = 0
        self._samples = self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""
        if self.load_weights_on_restart and os.path.exists(self.filepath):
            self.model.load_weights(self.filepath)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""
        self._epoch = epoch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of training."""
        if isinstance(self.save_freq, int):
            self._samples += (logs or {}).get("size", 1)
            if self._samples >= self.save_freq:
                self._save(self._epoch, logs or {})
                self._samples = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        self.epochs_since_last_save += 1
        if self.save_freq == "epoch" and self.epochs_since_last_save >= self.period:
            self.epochs_since_last_save = 0
            self._save(epoch, logs or {})

    def _save(self, epoch: int, logs: dict[str, Any]) -> None:
        path = self.filepath.format(epoch=epoch + 1, **logs)
        if self.save_best_only:
            current = logs.get(self.monitor)
            if current is None:
                tf.logging.warning("Can save best model only with %s available, skipping.", self.monitor)
                return
            if not self.monitor_op(current, self.best):
                if self.verbose:
                    print(f"\nEpoch {epoch + 1:05d}: {self.monitor} did not improve from {self.best:0.5f}")
                return
            if self.verbose:
                print(
                    f"\nEpoch {epoch + 1:05d}: {self.monitor} improved from {self.best:0.5f} to "
                    f"{current:0.5f}, saving model "
                    f"to {path}"
                )
            self.best = current
        elif self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: saving model to {path}")
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)


class EarlyStopping(Callback):
    """Stop training when a value no longer gets better.

    Args:
        monitor: what is watched.
        min_delta: the least change that counts.
        patience: number of epochs without one, after which training stops.
        verbose: 1 prints a line.
        mode: ``'min'``, ``'max'`` or ``'auto'``.
        baseline: a value that must be passed.
        restore_best_weights: give the model its best weights at the end.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        super().__init__()
        self.monitor, self.patience, self.verbose = monitor, patience, verbose
        self.baseline, self.restore_best_weights = baseline, restore_best_weights
        self.monitor_op, self._worst = _comparison(mode, monitor)
        self.min_delta = abs(min_delta) * (1 if self.monitor_op is np.greater else -1)
        self.wait = self.stopped_epoch = 0
        self.best_weights: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""
        self.wait = self.stopped_epoch = 0
        self.best = self._worst if self.baseline is None else self.baseline

    def get_monitor_value(self, logs: Any) -> Any:
        """What is watched, of an epoch's logs."""
        value = (logs or {}).get(self.monitor)
        if value is None:
            tf.logging.warning(
                "Early stopping conditioned on metric `%s` which is not available. Available metrics are: %s",
                self.monitor,
                ",".join(logs or {}),
            )
        return value

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        current = self.get_monitor_value(logs)
        if current is None:
            return
        if self.monitor_op(current - self.min_delta, self.best):
            self.best, self.wait = current, 0
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.restore_best_weights and self.best_weights is not None:
                if self.verbose:
                    print("Restoring model weights from the end of the best epoch.")
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: Any = None) -> None:
        """After training."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1:05d}: early stopping")


def _learning_rate(model: Any) -> Any:
    if not hasattr(model.optimizer, "lr"):
        raise ValueError(
            'Optimizer must have a "lr" attribute.\n'
            + errors.message(f"{model.optimizer}", "an optimizer of tf.keras", "tf.keras.optimizers.Adam()")
        )
    return model.optimizer.lr


class LearningRateScheduler(Callback):
    """Set the learning rate before each epoch.

    Args:
        schedule: function of the epoch, and of the rate if it takes two arguments.
        verbose: 1 prints a line.
    """

    def __init__(self, schedule: Any, verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""
        rate = _learning_rate(self.model)
        try:
            value = self.schedule(epoch, float(state.get_value(rate)))
        except TypeError:
            value = self.schedule(epoch)
        if not isinstance(value, (float, np.floating)):
            raise ValueError(
                'The output of the "schedule" function should be float.\n'
                + errors.message(f"{value!r}", "a float", "return 0.001")
            )
        state.set_value(rate, value)
        if self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: LearningRateScheduler reducing learning rate to {value}.")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        if logs is not None:
            logs["lr"] = state.get_value(self.model.optimizer.lr)


class ReduceLROnPlateau(Callback):
    """Make the learning rate smaller when a value no longer gets better.

    Args:
        monitor: what is watched.
        factor: what the rate is multiplied by.
        patience: number of epochs without an improvement, after which it is.
        verbose: 1 prints a line.
        mode: ``'min'``, ``'max'`` or ``'auto'``.
        min_delta: the least change that counts; ``epsilon`` is its old name.
        cooldown: number of epochs after a reduction that are not counted.
        min_lr: the least rate.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if factor >= 1.0:
            raise ValueError(
                "ReduceLROnPlateau does not support a factor >= 1.0.\n"
                + errors.message(f"factor={factor}", "a number below 1", "factor=0.1")
            )
        self.monitor, self.factor, self.patience, self.verbose = monitor, factor, patience, verbose
        self.min_delta, self.cooldown, self.min_lr = kwargs.pop("epsilon", min_delta), cooldown, min_lr
        self._better, self._worst = _comparison(mode, monitor)
        self._reset()

    def _reset(self) -> None:
        self.best, self.wait, self.cooldown_counter = self._worst, 0, 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""
        self._reset()

    def in_cooldown(self) -> bool:
        """Whether epochs are not counted now."""
        return self.cooldown_counter > 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        rate = _learning_rate(self.model)
        logs = logs if logs is not None else {}
        logs["lr"] = state.get_value(rate)
        current = logs.get(self.monitor)
        if current is None:
            tf.logging.warning("Reduce LR on plateau conditioned on metric `%s` which is not available.", self.monitor)
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        margin = self.min_delta if self._better is np.greater else -self.min_delta
        if self._better(current, self.best + margin):
            self.best, self.wait = current, 0
        elif not self.in_cooldown():
            self.wait += 1
            before = float(state.get_value(rate))
            if self.wait >= self.patience and before > self.min_lr:
                after = max(before * self.factor, self.min_lr)
                state.set_value(rate, after)
                if self.verbose:
                    print(f"\nEpoch {epoch + 1:05d}: ReduceLROnPlateau reducing learning rate to {after}.")
                self.cooldown_counter, self.wait = self.cooldown, 0


class CSVLogger(Callback):
    """Write a row for each epoch to a file.

    Args:
        filename: the file.
        separator: what stands between columns.
        append: keep what the file holds.
    """

    def __init__(self, filename: str, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.sep, self.append = filename, separator, append
        self.keys: Any = None
        self._file: Any = None
        self._writer: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""
        self._has_header = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self._file = open(self.filename, "a" if self.append else "w", newline="")  # noqa: SIM115

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        logs = logs or {}
        self.keys = sorted(logs) if self.keys is None else self.keys
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, fieldnames=["epoch", *self.keys], delimiter=self.sep)
            if not self._has_header:
                self._writer.writeheader()
        row = collections.OrderedDict(epoch=epoch)
        row.update((key, logs.get(key, "NA")) for key in self.keys)
        self._writer.writerow(row)
        self._file.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """After training."""
        self._file.close()
        self._writer = None


class LambdaCallback(Callback):
    """A callback of functions, given by the names of the hooks."""

    def __init__(
        self,
        on_epoch_begin: Any = None,
        on_epoch_end: Any = None,
        on_batch_begin: Any = None,
        on_batch_end: Any = None,
        on_train_begin: Any = None,
        on_train_end: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        hooks = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_batch_begin": on_batch_begin,
            "on_batch_end": on_batch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
        }
        for name, hook in {**hooks, **kwargs}.items():
            if hook is not None:
                setattr(self, name, hook)


class RemoteMonitor(Callback):
    """Send the logs of each epoch to a server as JSON.

    Args:
        root, path: address of the server, and path on it.
        field: field of the form that holds them.
        headers: headers of the request.
        send_as_json: send them as the body, not as a form.
    """

    def __init__(
        self,
        root: str = "http://localhost:9000",
        path: str = "/publish/epoch/end/",
        field: str = "data",
        headers: Any = None,
        send_as_json: bool = False,
    ) -> None:
        super().__init__()
        self.root, self.path, self.field, self.headers, self.send_as_json = root, path, field, headers, send_as_json

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        import urllib.error
        import urllib.parse
        import urllib.request

        send = {"epoch": epoch, **{name: float(value) for name, value in (logs or {}).items()}}
        text = json.dumps(send)
        headers = dict(self.headers or {})
        if self.send_as_json:
            body = text.encode()
            headers.setdefault("Content-Type", "application/json")
        else:
            body = urllib.parse.urlencode({self.field: text}).encode()
        request = urllib.request.Request(self.root + self.path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=10):
                pass
        except (urllib.error.URLError, TimeoutError):
            tf.logging.warning("Warning: could not reach RemoteMonitor root server at %s", self.root)
