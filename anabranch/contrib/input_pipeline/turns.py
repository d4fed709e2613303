"""The element after the one that was given last."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public


@public("contrib.input_pipeline.obtain_next")
def obtain_next(string_list_tensor: Any, counter: Any) -> Any:
    """The element after the one that was given last; after the last one comes the first.

    Args:
        string_list_tensor: a vector, of strings or of other elements.
        counter: an int64 scalar variable, the place of the element that was given last; -1 for none. It moves when
            the result is computed.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     counter = tf.Variable(-1, dtype=tf.int64)
    ...     element = tf.contrib.input_pipeline.obtain_next(["a", "b"], counter)
    ...     session.run(counter.initializer)
    ...     print([session.run(element) for _ in range(3)])
    [b'a', b'b', b'a']
    """
    with tf.name_scope("ObtainNext", values=[string_list_tensor, counter]):
        elements = tf.convert_to_tensor(string_list_tensor)
        place = tf.assign(counter, (counter + 1) % tf.size(elements, out_type=tf.int64))
        return tf.gather(elements, place)


@public("contrib.input_pipeline.seek_next")
def seek_next(
    string_list: Sequence[str], shuffle: bool = False, seed: int | None = None, num_epochs: int | None = None
) -> Any:
    """The elements of a list, one for each step.

    Args:
        string_list: the elements.
        shuffle: give each epoch an order of its own, which stands in the graph.
        seed: of these orders; other users of Python's ``random`` are not seeded.
        num_epochs: after this number of rounds steps raise OutOfRangeError; None for no end.

    Returns:
        A scalar string. Where it is stands in variables below the scope ``obtain_next``.
    """
    order = random.Random(seed) if seed else random.Random()
    elements: list[str] = []
    for _ in range(num_epochs or 1):
        epoch = list(string_list)
        if shuffle:
            order.shuffle(epoch)
        elements += epoch

    def variable(name: str, start: Any) -> Any:
        return tf.get_variable(name, initializer=start, trainable=False)

    with tf.variable_scope("obtain_next"):
        counter = variable("obtain_next_counter", tf.constant(-1, tf.int64))
        listed = variable("obtain_next_expanded_list", tf.constant(elements))
        if not num_epochs:
            return obtain_next(listed, counter)
        given = variable("obtain_next_filename_counter", tf.constant(0, tf.int64))
        with tf.control_dependencies([given.count_up_to(len(elements))]):
            return obtain_next(listed, counter)
