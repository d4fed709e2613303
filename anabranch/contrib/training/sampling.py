"""``tf.contrib.training.rejection_sample`` and ``stratified_sample``: elements accepted by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.ops.control.public_dependencies import with_dependencies


@public("contrib.training.rejection_sample")
def rejection_sample(
    tensors: Sequence[Any],
    accept_prob_fn: Callable[[list[Any]], Any],
    batch_size: int,
    queue_threads: int = 1,
    enqueue_many: bool = False,
    prebatch_capacity: int = 16,
    prebatch_threads: int = 1,
    runtime_checks: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Batches of elements, each accepted with a probability of its own.

    Args:
        tensors: list of tensors, one element, or with ``enqueue_many`` many ``[n, ...]``.
        accept_prob_fn: tensors of an element -> its probability, a scalar in [0, 1].
        batch_size: elements of a batch.
        queue_threads: threads that compute and judge elements.
        enqueue_many: whether ``tensors`` hold many elements.
        prebatch_capacity: elements that wait to be judged, if there are many.
        prebatch_threads: threads that take many apart.
        runtime_checks: check that probabilities are in [0, 1].
        name: name of the operations.

    Returns:
        A list of batches ``[batch_size, ...]``.
    """
    with tf.variable_scope(name, "rejection_sample", tensors):
        element = [tf.convert_to_tensor(tensor) for tensor in tensors]
        if enqueue_many:
            _check_rows(element)
            ones = tf.train.batch(element, 1, prebatch_threads, prebatch_capacity, enqueue_many=True)
            element = [tf.squeeze(one, [0]) for one in (ones if isinstance(ones, list) else [ones])]
        probability = accept_prob_fn(element)
        if runtime_checks:
            checks = [tf.assert_less_equal(0.0, probability), tf.assert_less_equal(probability, 1.0)]
            probability = tf.identity(with_dependencies(checks, probability), name="prob_with_checks")
        batch = tf.train.maybe_batch(element, tf.random_uniform([]) < probability, batch_size, queue_threads)
        return batch if isinstance(batch, list) else [batch]


@public("contrib.training.stratified_sample")
def stratified_sample(
    tensors: Sequence[Any],
    labels: Any,
    target_probs: Any,
    batch_size: int,
    init_probs: Any = None,
    enqueue_many: bool = False,
    queue_capacity: int = 16,
    threads_per_queue: int = 1,
    name: str | None = None,
) -> tuple[list[Any], Any]:
    """Batches in which classes have given shares, made by accepting elements of rare classes more often.

    Args:
        tensors: list of tensors, one element, or with ``enqueue_many`` many ``[n, ...]``.
        labels: class of the element, an integer scalar, or of each ``[n]``.
        target_probs: share of each class in a batch ``[classes]``.
        batch_size: elements of a batch.
        init_probs: share of each class in the data; estimated by counting (a variable) if None.
        enqueue_many: whether ``tensors`` hold many elements.
        queue_capacity: elements that wait to be judged.
        threads_per_queue: threads for each queue.
        name: name of the operations.

    Returns:
        A list of batches ``[batch_size, ...]``, and their classes ``[batch_size]``.

    Raises:
        ValueError: shares of another number of classes, or sizes that do not agree.
    """
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(errors.message(f"{type(tensors).__name__} as the tensors", "a list of tensors", "[x, y]"))
    with tf.name_scope(name, "stratified_sample", [*tensors, labels]):
        element = [tf.convert_to_tensor(tensor) for tensor in tensors]
        labels = tf.convert_to_tensor(labels)
        target = tf.convert_to_tensor(target_probs, tf.float32)
        if not enqueue_many:
            element = [tf.expand_dims(tensor, 0) for tensor in element]
            labels = tf.expand_dims(labels, 0)
        if init_probs is None:
            target.get_shape().assert_is_fully_defined()
            initial = estimated_shares(labels, target.get_shape().num_elements())
        else:
            initial = tf.convert_to_tensor(init_probs, tf.float32)
        element, labels, (initial, target) = checked_input(element, labels, [initial, target])
        none_missing = tf.reduce_all(tf.logical_or(tf.not_equal(initial, 0), tf.equal(target, 0)))
        text = "All classes with zero initial probability must also have zero target probability: "
        initial = with_dependencies([tf.Assert(none_missing, [text, initial, target])], initial)
        accept = accepted_shares(initial, target)
        rejected = tf.reduce_sum((1 - accept) * initial)
        accept = tf.cond(
            rejected < 0.5,
            lambda: accept,
            lambda: tf.Print(accept, [accept], "Proportion of examples rejected by sampler is high.", first_n=10),
        )
        ones = tf.train.batch([*element, labels], 1, threads_per_queue, queue_capacity, enqueue_many=True)
        ones = ones if isinstance(ones, list) else [ones]
        *element, label = [tf.squeeze(one, [0]) for one in ones]
        keep = tf.random_uniform([]) < tf.gather(accept, label)
        batch = tf.train.maybe_batch([*element, label], keep, batch_size, threads_per_queue)
        batch = batch if isinstance(batch, list) else [batch]
        return batch[:-1], batch[-1]


def _check_rows(tensors: Sequence[Any], first: Any = None) -> None:
    """Refuse tensors that do not have as many rows each."""
    rows = tensors[0] if first is None else first
    for tensor in tensors:
        shape = tensor.get_shape().with_rank_at_least(1)
        shape[0].assert_is_compatible_with(rows.get_shape().with_rank_at_least(1)[0])


def estimated_shares(labels: Any, classes: int, smoothing: int = 10) -> Any:
    """Shares of classes in all labels ``[n]`` seen so far, and ``smoothing`` of each assumed before; a variable counts.

    Raises:
        ValueError: ``smoothing`` is not positive.
    """
    if smoothing <= 0:
        raise ValueError(
            "smoothing_constant must be nonzero.\n" + errors.message(f"smoothing={smoothing}", "1 at least", "10")
        )
    counts = tf.Variable([smoothing] * classes, trainable=False, name="class_count", dtype=tf.int64)
    seen = counts.assign_add(tf.reduce_sum(tf.one_hot(labels, classes, dtype=tf.int64), 0))
    seen = seen + 0  # one value, whoever counts on meanwhile
    return tf.cast(tf.truediv(seen, tf.reduce_sum(seen)), tf.float32)


def checked_input(tensors: Sequence[Any], labels: Any, shares: Sequence[Any]) -> tuple[list[Any], Any, list[Any]]:
    """Elements, labels and shares of classes that fail when they are computed if they do not fit each other.

    Raises:
        ValueError: shapes do not fit.
    """
    checked = []
    for probabilities in shares:
        probabilities.get_shape().assert_is_fully_defined()
        probabilities.get_shape().assert_has_rank(1)
        total = tf.reduce_sum(probabilities)
        low, high = tf.assert_less(1.0 - 1e-6, total), tf.assert_less(total, 1.0 + 1e-6)
        checks = [tf.assert_non_negative(probabilities), low, high]
        checked.append(with_dependencies(checks, probabilities))
    classes = checked[0].get_shape().num_elements()
    if any(each.get_shape().num_elements() != classes for each in checked):
        raise ValueError(
            "Probability parameters must have the same length.\n"
            + errors.message(
                f"shares of {[each.get_shape().num_elements() for each in checked]} classes",
                "as many in each",
                "init_probs=[...]",
            )
        )
    labels.get_shape().assert_has_rank(1)
    _check_rows(tensors, labels)
    count = tf.shape(labels)[0]
    some = tf.assert_positive(count)
    labels = with_dependencies([some], labels)
    tensors = [with_dependencies([some, tf.assert_equal(tf.shape(x)[0], count)], x) for x in tensors]
    below = tf.assert_less(labels, tf.cast(classes, labels.dtype))
    checks = [tf.assert_integer(labels), tf.assert_non_negative(labels), below]
    return tensors, with_dependencies([check for check in checks if check is not None], labels), checked


def accepted_shares(initial: Any, target: Any) -> Any:
    """With which probability to accept each class, so that shares ``initial`` become ``target``; 1 for the rarest."""
    ratio = tf.where(tf.equal(initial, 0), tf.zeros_like(initial), target / initial)
    return ratio / tf.reduce_max(ratio)
