"""What models are trained on, brought into one form: an iterator of batches of arrays.

Arrays are cut into batches, in a random order if asked for; sequences, generators and datasets give theirs. A batch is
``(inputs, targets, weights)``: lists of arrays in the order of the model's inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.platform import logging


def is_dataset(x: Any) -> bool:
    """Whether data come from ``tf.data``."""
    return isinstance(x, (tf.data.Dataset, tf.data.Iterator)) or type(x).__name__ in {"EagerIterator", "OwnedIterator"}


def is_indexed(x: Any) -> bool:
    """Whether an object gives whole batches by number, as `Sequence` does."""
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and hasattr(x, "on_epoch_end")


def is_generator(x: Any) -> bool:
    """Whether data come batch by batch."""
    return is_dataset(x) or is_indexed(x) or (hasattr(x, "__next__") and not isinstance(x, np.ndarray))


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def as_list(data: Any, names: Sequence[str], what: str) -> list[Any]:
    """Data as one array for each input or output.

    Raises:
        ValueError: their number differs, or a name is missing.
    """
    if data is None:
        return []
    if isinstance(data, Mapping):
        missing = [name for name in names if name not in data]
        if missing:
            raise ValueError(
                f'No data provided for "{missing[0]}". Need data for each key in: {list(names)}\n'
                + errors.message(f"{what} by the names {sorted(data)}", f"the names {list(names)}", "model.input_names")
            )
        items = [data[name] for name in names]
    elif (
        isinstance(data, (list, tuple)) and len(data) and (_is_array(data[0]) or len(names) > 1 or _is_nested(data[0]))
    ):
        items = list(data)
        if len(names) == 1 and len(items) > 1 and not _is_array(items[0]):
            items = [np.asarray(data)]
    else:
        items = [data]
    if len(items) != len(names):
        raise ValueError(
            f"Error when checking model {what}: the list of Numpy arrays that you are passing to your model is not the "
            f"size the model expected. Expected to see {len(names)} array(s), but instead got {len(items)} array(s).\n"
            + errors.message(f"{len(items)} arrays", f"{len(names)}: {list(names)}", f"a list of {len(names)} arrays")
        )
    return [_array(item) for item in items]


def _is_nested(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(len(x)) and _is_array(x[0])


def _array(x: Any) -> Any:
    if isinstance(x, (tf.Tensor, tf.Variable)):
        if not (hasattr(x, "numpy") and state.is_eager()):
            x = tf.convert_to_tensor(x)
            return tf.expand_dims(x, -1) if x.shape.ndims == 1 else x
        x = x.numpy()
    if type(x).__module__.startswith("pandas"):
        x = x.values
    if hasattr(x, "tocsr"):
        return x.tocsr()  # the one form of SciPy's whose rows can be taken in any order
    if type(x).__name__ in {"HDF5Matrix", "SparseTensorValue", "SparseTensor"}:
        return x
    x = np.asarray(x)
    return x[:, np.newaxis] if x.ndim == 1 else x


def rows_of(arrays: Sequence[Any]) -> int:
    """Number of samples.

    Raises:
        ValueError: arrays have different numbers of them.
    """
    sizes = sorted({int(array.shape[0]) for array in arrays})
    if len(sizes) > 1:
        raise ValueError(
            "All input arrays (x) should have the same number of samples. Got array shapes: "
            f"{[a.shape for a in arrays]}\n"
            + errors.message(f"{sizes} samples", "one number of samples", "x[:n], y[:n]")
        )
    return sizes[0] if sizes else 0


def check_samples(inputs: Sequence[Any], targets: Sequence[Any]) -> None:
    """Refuse inputs and targets of different numbers of samples: ValueError."""
    rows_of(inputs)
    given, wanted = (sorted({int(array.shape[0]) for array in arrays}) for arrays in (targets, inputs))
    if len(given) > 1:
        raise ValueError(
            "All target arrays (y) should have the same number of samples. Got array shapes: "
            f"{[a.shape for a in targets]}\n"
            + errors.message(f"targets of {given} samples", "one number of samples", "y[:n]")
        )
    if given and wanted and given != wanted:
        raise ValueError(
            "Input arrays should have the same number of samples as target arrays. "
            f"Found {wanted[0]} input samples and {given[0]} target samples.\n"
            + errors.message(f"{wanted[0]} inputs and {given[0]} targets", "one number of samples", "x[:n], y[:n]")
        )


def check_shapes(arrays: Sequence[Any], names: Sequence[str], shapes: Sequence[Any], what: str) -> None:
    """Refuse arrays that do not fit the model: ValueError."""
    for array, name, shape in zip(arrays, names, shapes, strict=True):
        if shape is None or not hasattr(array, "shape"):
            continue
        given = tuple(array.shape)
        if len(given) != len(shape):
            raise ValueError(
                f"Error when checking {what}: expected {name} to have {len(shape)} dimensions, "
                "but got array with shape "
                f"{given}\n" + errors.message(f"shape {given} for {name}", f"shape {tuple(shape)}", "np.reshape")
            )
        if any(want is not None and want != got for want, got in zip(shape[1:], given[1:], strict=True)):
            raise ValueError(
                f"Error when checking {what}: expected {name} to have shape {tuple(shape[1:])} "
                "but got array with shape "
                f"{given[1:]}\n" + errors.message(f"shape {given} for {name}", f"shape {tuple(shape)}", "np.reshape")
            )


def _by_output(weights: Any, names: Sequence[str], argument: str) -> list[Any]:
    """What an argument says of each output: for several a list or dict; for one of a network, also the weights alone.

    Raises:
        TypeError: weights alone for several outputs. ValueError: a list of another length, or unknown names.
    """
    if weights is None or (isinstance(weights, (list, tuple, Mapping)) and not len(weights)):
        return [None] * len(names)
    wanted = f"{argument}={{{names[0]!r}: ...}}"
    if len(names) == 1:
        if isinstance(weights, (list, tuple)) and len(weights) == 1:
            return list(weights)
        return [weights[names[0]] if isinstance(weights, Mapping) and names[0] in weights else weights]
    if isinstance(weights, (list, tuple)):
        if len(weights) != len(names):
            raise ValueError(
                f"Provided `{argument}` was a list of {len(weights)} elements, but the model has {len(names)} outputs. "
                f"You should provide one `{argument}`array per model output.\n"
                + errors.message(f"a list of {len(weights)}", f"one for each of {list(names)}", wanted)
            )
        return list(weights)
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"The model has multiple outputs, so `{argument}` should be either a list or a dict. Provided "
            f"`{argument}` type not understood: {weights}\n"
            + errors.message(f"{type(weights).__name__} for {len(names)} outputs", "a list or a dict", wanted)
        )
    unknown = [key for key in weights if key not in names]
    if unknown:
        raise ValueError(
            f"Unknown entries in {argument} dictionary: {unknown}. Only expected following keys: {list(names)}\n"
            + errors.message(f"keys {unknown}", f"some of {list(names)}", wanted)
        )
    return [weights.get(name) for name in names]


def _check_weights(weight: Any, target: Any, mode: Any) -> None:
    """Refuse weights of steps in time where those of samples are meant, and another number of them than of samples."""
    if mode != "temporal" and np.ndim(weight) != 1:
        raise ValueError(
            f"Found a sample_weight array with shape {np.shape(weight)}. In order to use timestep-wise sample weights, "
            'you should specify sample_weight_mode="temporal" in compile(). If you just mean to use sample-wise '
            "weights, make sure your sample_weight array is 1D.\n"
            + errors.message(f"weights of shape {np.shape(weight)}", "shape [samples]", "np.reshape(weights, [-1])")
        )
    if np.shape(weight)[0] != np.shape(target)[0]:
        raise ValueError(
            f"Found a sample_weight array with shape {np.shape(weight)} for an input with shape {np.shape(target)}. "
            "sample_weight cannot be broadcast.\n"
            + errors.message(f"{np.shape(weight)[0]} weights", f"{np.shape(target)[0]}, one for each sample", "w[:n]")
        )


def sample_weights(
    sample_weight: Any, class_weight: Any, targets: Sequence[Any], names: Sequence[str], modes: Sequence[Any]
) -> list[Any] | None:
    """Weights of samples for each output; None if there are none."""
    if sample_weight is None and class_weight is None:
        return None
    given = _by_output(sample_weight, names, "sample_weight")
    by_class = _by_output(class_weight, names, "class_weight")
    made = []
    for weight, classes, target, mode in zip(given, by_class, targets, modes, strict=True):
        if weight is None:
            value = np.ones(len(target), state.floatx())
        else:
            value = np.asarray(weight, state.floatx())
            _check_weights(value, target, mode)
        if classes is not None and not isinstance(classes, Mapping):
            logging.warning("class_weight=%r is not a dictionary of classes, and changes nothing.", classes)
        elif classes:
            labels = np.argmax(target, 1) if target.ndim == 2 and target.shape[1] > 1 else np.reshape(target, [-1])
            factors = [classes.get(label) for label in labels.tolist()]
            if any(factor is None for factor in factors):
                missing = {label for label, factor in zip(labels.tolist(), factors, strict=True) if factor is None}
                raise ValueError(
                    f"`class_weight` must contain all classes in the data. The classes {missing} "
                    "exist in the data but not "
                    f"in `class_weight`.\n"
                    + errors.message(f"no weight for {missing}", "one for each class", "{0: 1.0}")
                )
            value = value * np.asarray(factors, value.dtype)
        made.append(value)
    return made


class Arrays:
    """Batches of arrays."""

    ran_out = False
    is_dataset = False

    def __init__(self, groups: Sequence[Sequence[Any]], batch_size: int, shuffle: Any = False) -> None:
        self.groups, self.batch_size, self.shuffle = groups, batch_size, shuffle
        self.samples = rows_of([array for group in groups for array in group])
        self.steps = self.size = -(-self.samples // batch_size)

    def batches(self) -> Iterator[tuple[int, list[list[Any]]]]:
        """The batches of one epoch, with their sizes."""
        order = np.arange(self.samples)
        if self.shuffle == "batch":
            whole = order[: self.samples - self.samples % self.batch_size].reshape(-1, self.batch_size)
            np.random.shuffle(whole)
            order = np.append(whole.reshape(-1), order[whole.size :])
        elif self.shuffle:
            np.random.shuffle(order)
        for start in range(0, self.samples, self.batch_size):
            rows = order[start : start + self.batch_size]
            if self.shuffle:
                batch = [[_rows(array, rows) for array in group] for group in self.groups]
            else:
                batch = [[array[start : start + len(rows)] for array in group] for group in self.groups]
            yield len(rows), [[_dense(array) for array in group] for group in batch]

    def begin_anew(self) -> None:
        """Nothing: each epoch has all rows."""

    def close(self) -> None:
        """Nothing to let go of."""


class Repeated:
    """The same arrays, or what tensors of a graph give, in each of a number of steps.

    Args:
        groups: inputs, targets and, if there are any, weights.
        steps: number of steps in an epoch.
        argument: what the program says the number by.

    Raises:
        ValueError: the number is not known.
    """

    ran_out = False
    is_dataset = False

    def __init__(self, groups: list[list[Any]], steps: int | None, argument: str) -> None:
        if steps is None:
            raise ValueError(
                f"When using data tensors as input to a model, you should specify the `{argument}` argument.\n"
                + errors.message("tensors without a number of steps", "a number", f"{argument}=100")
            )
        self.groups, self.steps, self.size, self.samples = groups, steps, steps, None
        self._has_tensors = any(isinstance(one, tf.Tensor) and not one.has_value for group in groups for one in group)

    def batches(self) -> Iterator[tuple[int, list[list[Any]]]]:
        """The batches of one epoch, with their sizes."""
        whole = [[_dense(one) for one in group] for group in self.groups]
        for _ in range(self.steps):
            batch = self._evaluated() if self._has_tensors else whole
            yield rows_of(batch[0]) if batch[0] else 1, batch

    def _evaluated(self) -> list[list[Any]]:
        session = state.get_session()
        tensors = [[one for one in group if isinstance(one, tf.Tensor)] for group in self.groups]
        values = [iter(group) for group in session.run(tensors)]
        return [
            [next(given) if isinstance(one, tf.Tensor) else one for one in group]
            for group, given in zip(self.groups, values, strict=True)
        ]

    def begin_anew(self) -> None:
        """Nothing: each step has all there is."""

    def close(self) -> None:
        """Nothing to let go of."""


def check_dataset(x: Any, y: Any, sample_weight: Any, batch_size: Any, steps: int | None, argument: str) -> None:
    """Refuse what does not go with a dataset or an iterator: ValueError."""
    if batch_size is not None:
        raise ValueError(
            f"The `batch_size` argument must not be specified for the given input type. Received input: {x}\n"
            + errors.message(f"batch_size={batch_size} and a dataset", "the dataset alone", "dataset.batch(32)")
        )
    if y is not None:
        raise ValueError(
            f"You passed a dataset or dataset iterator ({x}) as input `x` to your model. In that case, you should not "
            "specify a target (`y`) argument, since the dataset or dataset iterator generates both input data and "
            f"target data. Received: {x}\n"
            + errors.message(
                "a dataset and targets", "pairs from the dataset", "tf.data.Dataset.zip((inputs, targets))"
            )
        )
    if sample_weight is not None:
        raise ValueError(
            "`sample_weight` argument is not supported when input `x` is a dataset or a dataset iterator. Instead, "
            f"provide it as the third component of the dataset. Received: {x}\n"
            + errors.message(
                "a dataset and sample_weight",
                "triples from the dataset",
                "tf.data.Dataset.zip((inputs, targets, weights))",
            )
        )
    if steps is None and isinstance(x, tf.data.Iterator):
        raise ValueError(
            f"When using iterators as input to a model, you should specify the `{argument}` argument.\n"
            + errors.message("an iterator without a number of steps", "a number, or the dataset", f"{argument}=100")
        )
    if (
        steps is None
        and isinstance(x, tf.data.Dataset)
        and _cardinality(x) == tf.data.experimental.INFINITE_CARDINALITY
    ):
        raise ValueError(
            f"When passing an infinitely repeating dataset, you must specify the `{argument}` argument.\n"
            + errors.message("a dataset without an end", "a number of steps", f"{argument}=100")
        )


def _cardinality(dataset: Any) -> int:
    size = tf.data.experimental.cardinality(dataset)
    return int(size.numpy() if state.is_eager() else state.get_session().run(size))


def one_batch(source: Any) -> tuple[Any, Any, Any]:
    """Inputs, targets and weights from a dataset, of which it is the first batch, or an iterator, of which the next."""
    element = next(Batches(source, 1, None)._elements())
    parts = element if isinstance(element, tuple) else (element,)
    inputs, targets, weights = (*parts, None, None)[:3]
    return inputs, targets, weights


def _rows(array: Any, rows: np.ndarray) -> Any:
    if type(array).__name__ == "HDF5Matrix" or type(array).__module__.startswith("h5py"):
        order = np.argsort(rows)
        return array[np.sort(rows).tolist()][np.argsort(order)]
    return array[rows]


def _dense(array: Any) -> Any:
    return array.toarray() if hasattr(array, "tocsr") else array


def split(arrays: Sequence[Any], at: int) -> tuple[list[Any], list[Any]]:
    """The rows before and after a place."""
    return [array[:at] for array in arrays], [array[at:] for array in arrays]


class Batches:
    """Batches that a dataset, an iterator, a sequence or a generator gives.

    Args:
        source: where they come from.
        steps: number of batches in an epoch; up to the end of the source if None.
        prepare: makes ``(inputs, targets, weights)`` of what the source gives.
        shuffle: take the batches of a sequence in a random order.
    """

    def __init__(self, source: Any, steps: int | None, prepare: Any, shuffle: bool = False) -> None:
        self.source, self.prepare, self.shuffle = source, prepare, shuffle
        self.steps = len(source) if steps is None and is_indexed(source) else steps
        self.is_dataset = is_dataset(source)
        self.size = self.steps
        """The number of batches of an epoch as far as it is known before."""
        if steps is None and isinstance(source, tf.data.Dataset):
            number = _cardinality(source)
            self.size = number if number >= 0 else None
        self._pass_ends = False
        self.samples: int | None = None
        self.ran_out = False
        """Whether the source ended before a number of steps that the program asked for."""
        self._iterator: Any = None
        self._in_graph: Any = None
        """In a graph: what begins anew, and the next element."""
        if steps is None and not is_indexed(source) and not isinstance(source, tf.data.Dataset):
            raise ValueError(
                "`steps_per_epoch=None` is only valid for a generator based on the "
                "`keras.utils.Sequence` class. Please "
                "specify `steps_per_epoch` or use the `keras.utils.Sequence` class.\n"
                + errors.message("a generator without a number of steps", "a number", "fit(..., steps_per_epoch=100)")
            )

    def _elements(self) -> Iterator[Any]:
        source = self.source
        if is_indexed(source):
            while True:
                order = np.arange(len(source))
                if self.shuffle:
                    np.random.shuffle(order)
                for at, i in enumerate(order):
                    self._pass_ends = at == len(order) - 1
                    yield source[int(i)]
                self._end_pass()
        elif is_dataset(source) and not state.is_eager():
            session = state.get_session()
            if self._in_graph is None:
                is_whole = isinstance(source, tf.data.Dataset)
                iterator = tf.compat.v1.data.make_initializable_iterator(source) if is_whole else source
                self._in_graph = (iterator.initializer if is_whole else [], iterator.get_next())
            begin, element = self._in_graph
            session.run(begin)
            while True:
                try:
                    yield session.run(element)
                except tf.errors.OutOfRangeError:
                    return
        else:
            yield from source

    def batches(self) -> Iterator[tuple[int, list[list[Any]]]]:
        """The batches of one epoch, with their sizes."""
        step = 0
        while self.steps is None or step < self.steps:
            if self._iterator is None:
                self._iterator = self._elements()
            try:
                element = next(self._iterator)
            except StopIteration:
                self._iterator = None
                if self.steps is not None:
                    self.ran_out = True
                    tf.logging.warning(
                        "Your dataset iterator ran out of data; interrupting training. Make sure "
                        "that your iterator can "
                        "generate at least `steps_per_epoch * epochs` batches (in this case, %s batches).",
                        self.steps,
                    )
                return
            batch = self.prepare(element)
            step += 1
            yield rows_of(batch[0]), batch
        self._end_pass()

    def _end_pass(self) -> None:
        """Tell a sequence, once, that all its batches were taken."""
        if self._pass_ends:
            self._pass_ends = False
            self.source.on_epoch_end()

    def begin_anew(self) -> None:
        """Have the next epoch begin where the source does, if it is a dataset or a sequence."""
        if isinstance(self.source, tf.data.Dataset) or is_indexed(self.source):
            self.close()

    def close(self) -> None:
        """Let go of the source."""
        if self._iterator is not None:
            self._iterator.close()
            self._iterator = None
