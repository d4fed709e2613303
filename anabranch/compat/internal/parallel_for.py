"""``tensorflow.python.ops.parallel_for``: functions of a number, called for many numbers, and Jacobians by them.

TensorFlow builds an op for all iterations at a time where it knows one. Here an iteration is the body of a loop; the
results are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.eager import jacobians

vectorized_map = tf.vectorized_map


def pfor(loop_fn: Callable[[Any], Any], iters: Any, parallel_iterations: int | None = None) -> Any:
    """The results of ``loop_fn`` for the numbers 0 to ``iters - 1``, stacked.

    Args:
        loop_fn: function of an int32 scalar. It returns a tensor, or a structure of tensors; None stays None.
        iters: how many iterations, a number or a tensor.
        parallel_iterations: has no effect.
    """
    form: list[Any] = []

    def walk(number: Any) -> list[Any]:
        form[:] = [loop_fn(number)]
        return nest.flatten(form[0])

    count = iters if isinstance(iters, int) else tf.cast(iters, tf.int32)
    stacked = jacobians.stacked_gradients(walk, tf.convert_to_tensor, count, True)
    return nest.pack_sequence_as(form[0], stacked)


def for_loop(
    loop_fn: Callable[[Any], Any], loop_fn_dtypes: Any, iters: Any, parallel_iterations: int | None = None
) -> Any:
    """Like :func:`pfor`, but the results have the structure of ``loop_fn_dtypes``.

    Raises:
        ValueError: ``loop_fn`` returns another number of results.
    """
    expected = nest.flatten(loop_fn_dtypes)
    results = nest.flatten(pfor(loop_fn, iters))
    if len(results) != len(expected):
        raise ValueError(
            f"Number of expected outputs, {len(expected)}, does not match the number of actual outputs, "
            f"{len(results)}, from loop_fn\n"
            + errors.message(
                f"{len(results)} results of loop_fn and loop_fn_dtypes={loop_fn_dtypes!r}",
                "one dtype for each result",
                "for_loop(lambda i: (a, b), [a.dtype, b.dtype], iters)",
            )
        )
    return nest.pack_sequence_as(loop_fn_dtypes, results)


def jacobian(output: Any, inputs: Any, use_pfor: bool = True, parallel_iterations: int | None = None) -> Any:
    """The derivatives of each element of ``output`` by each of ``inputs``.

    Args:
        output: a tensor ``[*output_shape]``.
        inputs: a tensor or variable, or a structure of them.
        use_pfor: has no effect: one walk is repeated by a loop.
        parallel_iterations: has no effect.

    Returns:
        A structure like ``inputs`` of tensors ``[*output_shape, *input_shape]``, with None for an input that the output
        does not depend on.
    """
    sources = nest.flatten(inputs)
    stacked = _stacked(output, sources, False)
    results = [
        None if rows is None else jacobians.by_elements(output, source, rows)
        for source, rows in zip(sources, stacked, strict=True)
    ]
    return nest.pack_sequence_as(inputs, results)


def batch_jacobian(output: Any, inp: Any, use_pfor: bool = True, parallel_iterations: int | None = None) -> Any:
    """The derivatives of each element of ``output[b]`` by ``inp[b]``, for each b.

    Args:
        output: a tensor ``[batch, *output_shape]`` whose row b depends on ``inp[b]`` alone.
        inp: a tensor ``[batch, *input_shape]``.
        use_pfor: has no effect: one walk is repeated by a loop.
        parallel_iterations: has no effect.

    Returns:
        A tensor ``[batch, *output_shape, *input_shape]``, or None.

    Raises:
        ValueError: the first dimensions differ.
    """
    if not output.shape[0].is_compatible_with(inp.shape[0]):
        raise ValueError(
            f"Need first dimension of output shape ({output.shape}) and inp shape ({inp.shape}) to match.\n"
            + errors.message(
                f"shapes {output.shape} and {inp.shape}", "one first dimension, the batch", "jacobian(output, inp)"
            )
        )
    rows = _stacked(output, [inp], True)[0]
    return None if rows is None else jacobians.by_rows(output, inp, rows)


def _stacked(output: Any, sources: list[Any], batched: bool) -> list[Any]:
    start, count = jacobians.starts_of(output, batched)
    return jacobians.stacked_gradients(lambda ys: tf.gradients(output, sources, ys), start, count, True)
