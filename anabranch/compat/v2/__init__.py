"""``tf.compat.v2``: TensorFlow 2's names, as far as libraries for both versions use them on graphs.

Policy. A name is that of the top, unless version 2 gives it another meaning or other arguments: those stand here, under
version 2's argument lists. What version 2 has dropped is not here. Nothing here starts a mode without graphs.

This module has arrays, reductions, nets and checks; ``namespaces`` finds a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.compat.v2 import argument_lists, arrays, keras_support, namespaces, profiling, sparse_tensors, windows
from anabranch.compat.v2.namespaces import DROPPED
from anabranch.compat.v2.namespaces import version_2 as _v2
from anabranch.core.graph.builder import current_builder
from anabranch.core.graphdef.function_def import implied_control_outputs
from anabranch.core.values import nest

__all__ = ["DROPPED", "argument_lists", "arrays", "keras_support", "profiling", "sparse_tensors", "windows"]


def __getattr__(name: str) -> Any:
    return namespaces.show(globals(), name, namespaces.find("", name))


def __dir__() -> list[str]:
    return namespaces.listing()


# ------------------------------------------------------------------------------------------------------------- arrays
@_v2("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements of ``x`` where the condition holds, of ``y`` elsewhere, with broadcasting; without both, the places."""
    return tf.where_v2(condition, x, y, name)


@_v2("squeeze")
def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Any:
    """``input`` without dimensions of size 1."""
    return tf.squeeze(input, axis, name)


@_v2("expand_dims")
def expand_dims(input: Any, axis: Any, name: str | None = None) -> Any:
    """``input`` with a dimension of size 1 at ``axis``."""
    return tf.expand_dims(input, axis, name)


@_v2("shape")
def shape(input: Any, out_type: Any = tf.int32, name: str | None = None) -> Any:
    """The shape of a tensor; of a ragged one, what tells its dimensions but the ragged ones."""
    if isinstance(input, tf.RaggedTensor):
        return sparse_tensors.DynamicRaggedShape(input, out_type)
    return tf.shape(input, name, out_type)


@_v2("size")
def size(input: Any, out_type: Any = tf.int32, name: str | None = None) -> Any:
    """The number of elements of a tensor."""
    return tf.size(input, name, out_type)


@_v2("zeros_like")
def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros of the shape of a tensor."""
    return tf.zeros_like(input, dtype, name)


@_v2("ones_like")
def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Ones of the shape of a tensor."""
    return tf.ones_like(input, dtype, name)


@_v2("gather")
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Slices of ``params`` along ``axis``, which is ``batch_dims`` if None."""
    return tf.gather(params, indices, validate_indices, name, batch_dims if axis is None else axis, batch_dims)


@_v2("transpose")
def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Any:
    """``a`` with its dimensions in another order."""
    return tf.transpose(a, perm, name, conjugate)


@_v2("boolean_mask")
def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: str = "boolean_mask") -> Any:
    """The slices for which a mask holds."""
    return tf.boolean_mask(tensor, mask, name, axis)


def _after_effects(result: Any) -> Any:
    """What a branch or loop body returned, once everything that the body does is done; an operation for None."""
    graph: Any = current_builder()
    if not graph.defers:
        return tf.no_op() if result is None else result
    effects = implied_control_outputs(graph.current_body)
    with tf.control_dependencies(effects):
        if result is None:
            return tf.no_op()
        return nest.map_structure(lambda leaf: tf.identity(leaf) if isinstance(leaf, tf.Tensor) else leaf, result)


@_v2("cond")
def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """What ``true_fn()`` returns if ``pred`` holds, what ``false_fn()`` returns otherwise; ``pred`` may be a bool."""
    if isinstance(pred, bool):
        return true_fn() if pred else false_fn()
    nothing: list[bool] = []

    def whole(branch: Any) -> Any:
        def call() -> Any:
            result = branch()
            nothing.append(result is None)
            return _after_effects(result)

        return call

    result = tf.cond(pred, whole(true_fn), whole(false_fn), strict=True, name=name)
    return None if nothing and all(nothing) else result


@_v2("__internal__.smart_cond.smart_cond")
def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """What one of two functions returns; where ``pred`` is known, nothing is built for the other."""
    if isinstance(pred, tf.Variable):
        return cond(pred, true_fn, false_fn, name)
    value = tf.contrib.framework.smart_constant_value(pred)
    return cond(pred if value is None else value, true_fn, false_fn, name)


@_v2("while_loop")
def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Variables after a loop, in the structure of ``loop_vars``."""
    return tf.while_loop(
        cond,
        lambda *variables: _after_effects(body(*variables)),
        loop_vars,
        shape_invariants,
        parallel_iterations,
        back_prop,
        swap_memory,
        name,
        maximum_iterations,
        return_same_structure=True,
    )


@_v2("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
) -> Any:
    """Gradients of the sum of ``ys`` with respect to ``xs``."""
    return tf.gradients(
        ys, xs, grad_ys, name, False, gate_gradients, aggregation_method, stop_gradients, unconnected_gradients
    )


# --------------------------------------------------------------------------------------------------------- reductions
def _reduction(name: str) -> None:
    first = getattr(tf, name)

    def reduce(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
        return first(input_tensor, axis, keepdims, name)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = first.__doc__
    _v2(name, f"math.{name}")(reduce)


for _name in (
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
):
    _reduction(_name)


@_v2("argmax", "math.argmax")
def argmax(input: Any, axis: Any = None, output_type: Any = tf.int64, name: str | None = None) -> Any:
    """Where the largest entry along an axis is, along the first one if None."""
    return tf.argmax(input, 0 if axis is None else axis, name=name, output_type=output_type)


@_v2("argmin", "math.argmin")
def argmin(input: Any, axis: Any = None, output_type: Any = tf.int64, name: str | None = None) -> Any:
    """Where the smallest entry along an axis is, along the first one if None."""
    return tf.argmin(input, 0 if axis is None else axis, name=name, output_type=output_type)


@_v2("norm", "linalg.norm")
def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: str | None = None) -> Any:
    """The norm of vectors or matrices."""
    return tf.norm(tensor, ord, axis, bool(keepdims), name)


@_v2("math.count_nonzero")
def count_nonzero(
    input: Any, axis: Any = None, keepdims: Any = None, dtype: Any = tf.int64, name: str | None = None
) -> Any:
    """How many elements are not 0."""
    return tf.count_nonzero(input, axis, bool(keepdims), dtype, name)


# --------------------------------------------------------------------------------------------------------------- nets
@_v2("nn.softmax")
def softmax(logits: Any, axis: Any = None, name: str | None = None) -> Any:
    """Exponentials over their sum along an axis, the last one if None."""
    return tf.nn.softmax(logits, -1 if axis is None else axis, name)


@_v2("nn.log_softmax", "math.log_softmax")
def log_softmax(logits: Any, axis: Any = None, name: str | None = None) -> Any:
    """The logarithm of softmax along an axis, the last one if None."""
    return tf.nn.log_softmax(logits, -1 if axis is None else axis, name)


@_v2("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Any:
    """Cross entropy of labels and the softmax of logits; gradients flow into both."""
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, axis=axis, name=name)


@_v2("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Any:
    """Cross entropy of class numbers and the softmax of logits."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


@_v2("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Any:
    """Cross entropy of labels and the logistic function of logits."""
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


@_v2("nn.dropout")
def dropout(x: Any, rate: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None) -> Any:
    """``x`` with a share ``rate`` of its elements 0, and the others larger."""
    return tf.nn.dropout(x, noise_shape=noise_shape, seed=seed, name=name, rate=rate)


@_v2("nn.moments")
def moments(
    x: Any, axes: Sequence[int], shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Any, Any]:
    """Mean and variance over axes."""
    return tf.nn.moments(x, axes, shift, name, keepdims)


_v2("nn.max_pool")(tf.nn.max_pool_v2)
_v2("nn.avg_pool")(tf.nn.avg_pool_v2)


@_v2("nn.embedding_lookup")
def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: str | None = None) -> Any:
    """Rows of ``params``."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(embedding_lookup(params, ids.flat_values, max_norm, name))
    return tf.nn.embedding_lookup(params, ids, "div", name, True, max_norm)


# ------------------------------------------------------------------------------------------------------------- checks
def _assertion(name: str, two: bool) -> None:
    first = getattr(tf.debugging, name)

    def of_two(x: Any, y: Any, message: str | None = None, summarize: Any = None, name: str | None = None) -> Any:
        return first(x, y, message=message, summarize=summarize, name=name)

    def of_one(x: Any, message: str | None = None, summarize: Any = None, name: str | None = None) -> Any:
        return first(x, message=message, summarize=summarize, name=name)

    check = of_two if two else of_one
    check.__name__ = check.__qualname__ = name
    check.__doc__ = first.__doc__
    _v2(f"debugging.{name}")(check)


for _name in (
    "assert_equal",
    "assert_none_equal",
    "assert_less",
    "assert_less_equal",
    "assert_greater",
    "assert_greater_equal",
):
    _assertion(_name, True)
for _name in ("assert_negative", "assert_positive", "assert_non_negative", "assert_non_positive"):
    _assertion(_name, False)


@_v2("random.set_seed")
def set_seed(seed: int) -> None:
    """Set the seed of the default graph."""
    tf.set_random_seed(seed)
