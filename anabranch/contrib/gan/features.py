"""Parts of adversarial networks: bounded weights, conditions, and pools of earlier data."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public

__getattr__, __dir__ = module_attributes("contrib.gan.features")
_HOME = "contrib.gan.features."


@public(_HOME + "clip_variables")
def clip_variables(optimizer: Any, variables: Any, weight_clip: float) -> Any:
    """An optimizer that keeps the norm of each variable at most ``weight_clip``.

    Args:
        optimizer: the optimizer that makes the updates.
        variables: the variables that are bounded.
        weight_clip: the bound.

    Raises:
        ValueError: the bound is below 0.
    """
    if weight_clip < 0:
        raise ValueError(
            f"`discriminator_weight_clip` must be positive. Instead, was {weight_clip}\n"
            + errors.message(f"weight_clip={weight_clip}", "a bound of 0 or more", "weight_clip=0.01")
        )
    return tf.contrib.opt.VariableClippingOptimizer(
        optimizer,
        {variable: [] for variable in variables},
        weight_clip,
        use_locking=True,
        colocate_clip_ops_with_vars=True,
    )


@public(_HOME + "clip_discriminator_weights")
def clip_discriminator_weights(optimizer: Any, model: Any, weight_clip: float) -> Any:
    """:func:`clip_variables` for the variables of a model's discriminator.

    Args:
        optimizer: the optimizer that makes the updates.
        model: a model of ``tf.contrib.gan``.
        weight_clip: the bound.
    """
    return clip_variables(optimizer, model.discriminator_variables, weight_clip)


@public(_HOME + "condition_tensor")
def condition_tensor(tensor: Any, conditioning: Any) -> Any:
    """A tensor plus a linear map of a condition.

    Args:
        tensor: ``[batch, ...]``, with known sizes after the batch.
        conditioning: ``[batch, ...]``.

    Raises:
        ValueError: sizes after the batch are unknown.
    """
    tensor.shape[1:].assert_is_fully_defined()
    mapped = tf.contrib.layers.linear(tf.contrib.layers.flatten(conditioning), tensor.shape[1:].num_elements())
    if not mapped.shape.is_compatible_with(tensor.shape):
        sizes = tf.shape(tensor)
        known = tf.contrib.util.constant_value(sizes)
        mapped = tf.reshape(mapped, sizes if known is None else known)
    return tensor + mapped


@public(_HOME + "condition_tensor_from_onehot")
def condition_tensor_from_onehot(tensor: Any, one_hot_labels: Any, embedding_size: int = 256) -> Any:
    """A tensor plus a linear map of the embeddings of classes.

    Args:
        tensor: ``[batch, ...]``, with known sizes after the batch.
        one_hot_labels: ``[batch, classes]``.
        embedding_size: size of the embeddings; their variable is ``embedding`` in the current scope.

    Raises:
        ValueError: the labels are not a matrix, or the number of classes is unknown.
    """
    one_hot_labels.shape.assert_has_rank(2)
    one_hot_labels.shape[1:].assert_is_fully_defined()
    embedding = tf.get_variable("embedding", [one_hot_labels.shape[1], embedding_size])
    rows = tf.nn.embedding_lookup(embedding, tf.argmax(one_hot_labels, axis=1), name="token_to_embedding")
    return condition_tensor(tensor, rows)


@public(_HOME + "tensor_pool")
def tensor_pool(
    input_values: Any, pool_size: int = 50, pooling_probability: float = 0.5, name: str = "tensor_pool"
) -> Any:
    """What is given, or with some probability what was given in an earlier step (Shrivastava et al., 2017).

    Until the pool is full each step gives what it is given. Then a random value leaves the pool, the new one takes its
    place, and one of the two is the result.

    Args:
        input_values: a tensor, or a list or tuple of them that stay together.
        pool_size: number of steps that the pool holds; with 0 there is none.
        pooling_probability: how often the old value is the result.
        name: of the operations.

    Raises:
        ValueError: the size is below 0.
    """
    size = int(pool_size)
    if size < 0:
        raise ValueError(
            "`pool_size` is negative.\n" + errors.message(f"pool_size={size}", "a size of 0 or more", "pool_size=50")
        )
    if size == 0:
        return input_values
    several = isinstance(input_values, list | tuple)
    values = list(input_values) if several else [input_values]
    with tf.name_scope(f"{name}_pool_queue", values=[*values, pooling_probability]):
        queue = tf.RandomShuffleQueue(size, 0, [value.dtype for value in values])

        def filling() -> list[Any]:
            with tf.control_dependencies([queue.enqueue(values)]):
                return [tf.identity(value) for value in values]

        def swapping() -> list[Any]:
            taken = queue.dequeue()
            old = list(taken) if isinstance(taken, list | tuple) else [taken]
            with tf.control_dependencies(old), tf.control_dependencies([queue.enqueue(values)]):
                takes_old = tf.random_uniform([]) < pooling_probability
                return list(tf.cond(takes_old, lambda: old, lambda: values, strict=True))

        results = tf.cond(queue.size() < size, filling, swapping, strict=True)
        for value, result in zip(values, results, strict=True):
            result.set_shape(value.shape)
    if not several:
        return results[0]
    return type(input_values)(results) if type(input_values) in (list, tuple) else tuple(results)
