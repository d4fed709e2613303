"""``tf.keras.utils`` of version 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from anabranch.core import errors
from anabranch.keras.v1 import saving, state
from anabranch.keras.v1.fitting.progress import Progbar
from anabranch.keras.v1.network import get_source_inputs
from anabranch.keras.v1.objects import (
    CustomObjectScope,
    custom_object_scope,
    deserialize_keras_object,
    get_custom_objects,
    serialize_keras_object,
)


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray:
    """Class numbers as vectors with a one ``[..., classes]``."""
    numbers = np.array(y, dtype="int")
    shape = numbers.shape
    shape = shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape
    flat = numbers.ravel()
    count = num_classes or int(flat.max()) + 1
    made = np.zeros((flat.shape[0], count), dtype=dtype)
    made[np.arange(flat.shape[0]), flat] = 1
    return made.reshape((*shape, count))


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """Arrays scaled to norm 1 along an axis."""
    norm = np.atleast_1d(np.linalg.norm(x, order, axis))
    norm[norm == 0] = 1
    return np.asarray(x / np.expand_dims(norm, axis))


class Sequence:
    """Base of what gives batches by number: define ``__getitem__`` and ``__len__``."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def on_epoch_end(self) -> None:
        """After an epoch."""

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class SequenceEnqueuer:
    """What takes batches from a source one after the other; they are made when they are asked for.

    Args:
        sequence: a `Sequence` or a generator.
        use_multiprocessing: without effect.
        shuffle: take the batches of a sequence in a random order.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False, shuffle: bool = False, **kwargs: Any) -> None:
        self.sequence, self.shuffle = sequence, shuffle
        self._running = False

    def start(self, workers: int = 1, max_queue_size: int = 10) -> None:
        """Begin."""
        self._running = True

    def is_running(self) -> bool:
        """Whether it has begun and was not stopped."""
        return self._running

    def stop(self, timeout: float | None = None) -> None:
        """End."""
        self._running = False

    def get(self) -> Iterator[Any]:
        """The batches."""
        if not hasattr(self.sequence, "__getitem__"):
            yield from self.sequence
            return
        while self._running:
            order = np.arange(len(self.sequence))
            if self.shuffle:
                np.random.shuffle(order)
            for i in order:
                yield self.sequence[int(i)]
            self.sequence.on_epoch_end()


OrderedEnqueuer = GeneratorEnqueuer = SequenceEnqueuer


class HDF5Matrix:
    """Rows of a dataset of an HDF5 file, as an array that is read when it is used.

    Args:
        datapath: the file.
        dataset: name of the dataset.
        start, end: first row, and the one after the last.
        normalizer: function of what was read.
    """

    def __init__(
        self, datapath: str, dataset: str, start: int = 0, end: int | None = None, normalizer: Any = None
    ) -> None:
        self.data = saving._h5py().File(datapath, "r")[dataset]
        self.start, self.end = start, self.data.shape[0] if end is None else end
        self.normalizer = normalizer

    def __len__(self) -> int:
        return self.end - self.start

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            rows = self.data[start + self.start : stop + self.start : step]
        elif isinstance(key, (list, np.ndarray)):
            rows = self.data[[int(i) + self.start for i in key]]
        else:
            if not 0 <= key < len(self):
                raise IndexError(errors.message(f"row {key}", f"a row below {len(self)}", "len(matrix)"))
            rows = self.data[int(key) + self.start]
        return rows if self.normalizer is None else self.normalizer(rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return (len(self), *self.data.shape[1:])

    @property
    def dtype(self) -> Any:
        """Dtype of the dataset."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Rank of the dataset."""
        return int(self.data.ndim)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))


def convert_all_kernels_in_model(model: Any) -> None:
    """Turn the kernels of all convolutions round, as Theano's convolutions need it."""
    kinds = {"Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "Conv3DTranspose"}
    pairs = []
    for layer in model.layers:
        if type(layer).__name__ in kinds:
            kernel = state.get_value(layer.kernel)
            turn = (*[slice(None, None, -1)] * (kernel.ndim - 2), slice(None), slice(None))
            pairs.append((layer.kernel, kernel[turn].copy()))
    state.batch_set_value(pairs)


def _refuse(what: str, instead: str) -> NoReturn:
    raise errors.UnimplementedError(None, None, errors.message(what, "a part of tf.keras that is here", instead))


def multi_gpu_model(model: Any, gpus: Any, cpu_merge: bool = True, cpu_relocation: bool = False) -> NoReturn:
    """Not here: UnimplementedError."""
    _refuse("tf.keras.utils.multi_gpu_model", "the model itself, on one device")


def plot_model(model: Any, to_file: str = "model.png", *args: Any, **kwargs: Any) -> NoReturn:
    """Not here: UnimplementedError."""
    _refuse("tf.keras.utils.plot_model", "model.summary()")


def model_to_dot(model: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Not here: UnimplementedError."""
    _refuse("tf.keras.utils.model_to_dot", "model.summary()")


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: Any = None,
    custom_objects: Any = None,
    model_dir: Any = None,
    config: Any = None,
) -> NoReturn:
    """Not here: UnimplementedError."""
    _refuse("tf.keras.estimator.model_to_estimator", "model.fit, or a session that runs model.output")


__all__ = [
    "CustomObjectScope",
    "GeneratorEnqueuer",
    "HDF5Matrix",
    "OrderedEnqueuer",
    "Progbar",
    "Sequence",
    "SequenceEnqueuer",
    "convert_all_kernels_in_model",
    "custom_object_scope",
    "deserialize_keras_object",
    "get_custom_objects",
    "get_source_inputs",
    "model_to_dot",
    "multi_gpu_model",
    "normalize",
    "plot_model",
    "serialize_keras_object",
    "to_categorical",
]
