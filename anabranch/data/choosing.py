"""Elements of several datasets in an order that numbers give, or a draw; resampling by classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import get_seed
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import structure
from anabranch.data.dataset import Dataset, seeds
from anabranch.data.scanning import scan
from anabranch.data.structure import TensorComponent

Transformation = Callable[[Dataset], Dataset]
NUMBER = TensorComponent(dtypes.int64, TensorShape([]))


@public("data.experimental.RandomDataset", "contrib.data.RandomDataset")
class RandomDataset(Dataset):
    """Random int64 numbers from 0 to 2**32 - 1, without end: TensorFlow's own for a seed.

    Args:
        seed: with it (or a graph's seed) the numbers are always the same.
    """

    def __init__(self, seed: Any = None) -> None:
        super().__init__(build("RandomDataset", *seeds(seed), **structure.attrs_of(NUMBER)), NUMBER)


def _directed(selector: Dataset, datasets: Sequence[Dataset]) -> Dataset:
    """The elements of several datasets in the order that the numbers of another one tell."""
    first = datasets[0]
    for other in datasets[1:]:
        if other.output_types != first.output_types or other.output_classes != first.output_classes:
            raise TypeError(
                "All datasets must have the same type and class.\n"
                + errors.message(f"{first!r} and {other!r}", "datasets of like elements", "dataset.map(...)")
            )
    spec = first._spec
    for other in datasets[1:]:
        spec = structure.common_spec(spec, other._spec)
    tensors = [dataset._variant_tensor for dataset in datasets]
    variant = build("DirectedInterleaveDataset", selector._variant_tensor, tensors, **structure.attrs_of(spec))
    return Dataset(variant, spec, (selector, *datasets))


@public("data.experimental.choose_from_datasets", "contrib.data.choose_from_datasets")
def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset) -> Dataset:
    """The elements of several datasets in the order that the numbers of ``choice_dataset`` tell.

    Args:
        datasets: datasets of like elements; one that has ended is left out.
        choice_dataset: int64 numbers from 0 to ``len(datasets) - 1``.

    Example:
        >>> import anabranch as tf
        >>> words = [tf.data.Dataset.from_tensors(word).repeat() for word in ("a", "b")]
        >>> chosen = tf.data.experimental.choose_from_datasets(words, tf.data.Dataset.range(2).repeat(2))
        >>> element = chosen.batch(4).make_one_shot_iterator().get_next()
        >>> with tf.Session() as session:
        ...     session.run(element).tolist()
        [b'a', b'b', b'a', b'b']
    """
    if not structure.is_compatible(choice_dataset._spec, NUMBER):
        raise TypeError(
            "`choice_dataset` must be a dataset of scalar `tf.int64` tensors.\n"
            + errors.message(f"{choice_dataset!r}", "numbers of datasets", "Dataset.range(2).repeat()")
        )
    return _directed(choice_dataset, list(datasets))


@public("data.experimental.sample_from_datasets", "contrib.data.sample_from_datasets")
def sample_from_datasets(datasets: Sequence[Dataset], weights: Any = None, seed: Any = None) -> Dataset:
    """The elements of several datasets, each of one that is drawn.

    Args:
        datasets: datasets of like elements; one that has ended is left out.
        weights: how likely each is drawn, a vector of floats; or a dataset of such vectors. All alike if None.
        seed: with it (or a graph's seed) the draws are TensorFlow's own.
    """
    count = len(datasets)
    if isinstance(weights, Dataset):
        rows = weights.map(lambda *parts: build("Log", convert_to_tensor(parts)))
        selector = Dataset.zip((rows, RandomDataset(seed).batch(2))).map(_draw)
        return _directed(selector, list(datasets))
    if weights is None:
        logits = np.ones((1, count), np.float32)  # a constant of the function, which no seed around it counts
    else:
        weights = convert_to_tensor(weights, name="weights")
        if weights.dtype not in (dtypes.float32, dtypes.float64):
            raise TypeError(
                "`weights` must be convertible to a tensor of `tf.float32` or `tf.float64` elements.\n"
                + errors.message(weights.dtype.name, "floats", "weights=[0.5, 0.5]")
            )
        if not weights.shape.is_compatible_with(TensorShape([count])):
            raise ValueError(
                "`weights` must be a vector of length `len(datasets)`.\n"
                + errors.message(f"shape {weights.shape}", f"{count} weights", "weights=[0.5, 0.5]")
            )
        logits = build("ExpandDims", build("Log", weights), np.int32(0))
    if count == 1:
        return datasets[0]
    selector = RandomDataset(seed).batch(2).map(lambda pair: _draw(logits, pair))
    return _directed(selector, list(datasets))


def _draw(logits: Any, pair: Any) -> Tensor:
    """The number of one of several things that are as likely as ``logits`` [1, things] say."""
    drawn = build("StatelessMultinomial", logits, np.int32(1), pair, output_dtype=dtypes.int64)
    tensor: Tensor = build("Squeeze", drawn, squeeze_dims=[0, 1])
    return tensor


# ----------------------------------------------------------------------------------------------------------- resampling
SMOOTHING = 10
"""Elements of each class that are taken to have been seen before the first."""
ESTIMATED_AT_A_TIME = 32
"""Classes that are counted at a time."""


@public("data.experimental.rejection_resample", "contrib.data.rejection_resample")
def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: Any = None
) -> Transformation:
    """Pairs (class, element) in which classes are as frequent as asked for; some elements are left out.

    An element is taken from the dataset as it is with probability ``m``, the smallest ratio of a class's target to its
    share, and else from one whose elements are kept by chance: a class of ratio ``r`` with probability
    ``(r - m) / (largest ratio - m)``.

    Args:
        class_func: gives the int32 class of an element, from 0 on.
        target_dist: how frequent each class is to be, floats ``[classes]``.
        initial_dist: how frequent each is; counted while the dataset is gone through if None.
        seed: with it (or a graph's seed) the draws are always the same.
    """

    def apply(dataset: Dataset) -> Dataset:
        target = convert_to_tensor(target_dist, name="target_dist")
        classes = dataset.map(class_func)
        known = None
        if initial_dist is not None:
            initial = convert_to_tensor(initial_dist, name="initial_dist")
            keep, as_it_is = _acceptance(initial, target)
            shares = Dataset.from_tensors(initial).repeat()
            keeping = Dataset.from_tensors(keep).repeat()
            plain = Dataset.from_tensors(as_it_is).repeat()
            values = partial_value(initial), partial_value(target)
            if all(isinstance(value, np.ndarray) for value in values):
                known = float(np.min(values[1] / values[0]))
        else:
            shares = _shares(target, classes)
            both = shares.map(lambda share: _acceptance(share, target))
            keeping = both.map(lambda keep, as_it_is: keep)
            plain = both.map(lambda keep, as_it_is: as_it_is)
        pairs = Dataset.zip((classes, dataset))
        resampled = _kept(dataset, keeping, shares, classes, seed).prefetch(3)
        if known in (0, 1):
            return pairs if known else resampled
        weights = plain.map(lambda share: convert_to_tensor([share, 1.0 - share]))
        return sample_from_datasets([pairs, resampled], weights, seed)

    return apply


def _acceptance(initial: Any, target: Any) -> tuple[Any, Any]:
    """How likely an element of each class is kept, and how likely one is taken as it is."""
    ratio = target / (initial + initial.dtype.np.type(np.finfo(initial.dtype.np).tiny))
    largest, smallest = (build(kind, ratio, np.array([0], np.int32)) for kind in ("Max", "Min"))
    return (ratio - smallest) / (largest - smallest), smallest


def _shares(target: Any, classes: Dataset) -> Dataset:
    """How frequent each class has been, for each element."""
    count = target.shape[0].value
    size = build("StridedSlice", build("Shape", target), [0], [1], [1], shrink_axis_mask=1) if count is None else count

    def update(seen: Any, batch: Any) -> Any:
        hot = build("OneHot", batch, size, np.int64(1), np.int64(0))
        seen = seen + build("Sum", hot, np.int32(0))
        total = build("Sum", seen, np.array([0], np.int32))
        share = build("Cast", seen, DstT="float64") / build("Cast", total, DstT="float64")
        row = build("ExpandDims", build("Cast", share, DstT="float32"), np.int32(0))
        return seen, build("Tile", row, np.array([ESTIMATED_AT_A_TIME, 1], np.int32))

    first = build("Fill", build("Pack", [convert_to_tensor(size)], axis=0), np.int64(SMOOTHING))
    return classes.batch(ESTIMATED_AT_A_TIME).apply(scan(first, update)).unbatch()


def _kept(dataset: Dataset, keeping: Dataset, shares: Dataset, classes: Dataset, seed: Any) -> Dataset:
    """Pairs of class and element that are kept by chance."""

    def with_chance(label: Any, keep: Any, element: Any) -> Any:
        return label, build("GatherV2", keep, label, np.int32(0)), element

    def chosen(_label: Any, chance: Any, _element: Any) -> Any:
        low, high = get_seed(seed)
        drawn = build("RandomUniform", np.zeros(0, np.int32), dtype=chance.dtype, seed=low or 0, seed2=high or 0)
        return build("Less", drawn, chance)

    keeping = Dataset.zip((keeping, shares)).map(lambda keep, share: keep)
    judged = Dataset.zip((classes, keeping, dataset)).map(with_chance).filter(chosen)
    return judged.map(lambda label, chance, element: (label, element))
