"""A cell over a sequence, as a function of its parameters, its first state and its inputs.

The loop is a ``tf.scan``, whose gradient is a loop too. Where a program gives the gradient of its cell, the whole
sequence has a gradient of its own, which goes through time backwards with the states and extras that were kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

_nest = tf.contrib.framework.nest


def _each(function: Callable[..., Any], *structures: Any) -> Any:
    return _nest.map_structure(function, *structures)


def _scanned(step: Callable[[Any, Any], Any], inputs: Any, start: Any) -> Any:
    return tf.scan(step, inputs, initializer=start)


def _padded(values: Any, before: Any, after: Any) -> Any:
    """Values ``[time, ...]`` with zeros for the steps that were left out."""

    def pad(value: Any) -> Any:
        shape = tf.shape(value)[1:]
        zeros = [tf.zeros(tf.concat([[count], shape], 0), value.dtype) for count in (before, after)]
        return tf.concat([zeros[0], value, zeros[1]], 0)

    return _each(pad, values)


@public("contrib.recurrent.Recurrent")
def Recurrent(
    theta: Any,
    state0: Any,
    inputs: Any,
    cell_fn: Callable[..., Any],
    cell_grad: Callable[..., Any] | None = None,
    extras: Any = None,
    max_input_length: Any = None,
    use_tpu: bool = False,
    aligned_end: bool = False,
) -> tuple[Any, Any]:
    """States of a cell at all times, and the last one.

    Args:
        theta: a nested structure of parameters.
        state0: a nested structure, the first state.
        inputs: a nested structure of tensors ``[time, ...]``.
        cell_fn: function from ``(theta, state, inputs of a time)`` to the next state and extras, which are kept for
            ``cell_grad``.
        cell_grad: function from ``(theta, state, inputs, extras, gradient of the next state)`` to gradients of the
            first three, each in its structure; None in them means zeros. It is derived by default.
        extras: the structure of the extras, if the cell is not to be called for it; only ``cell_grad`` needs them.
        max_input_length: number of steps that run; all by default. States of the others are zeros.
        use_tpu: has no effect: all loops are compiled alike.
        aligned_end: leave the first steps out, and not the last.

    Returns:
        ``states``: the structure of ``state0`` with tensors ``[time, ...]``; and the last state.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     states, last = tf.contrib.recurrent.Recurrent(
    ...         tf.constant(2.0), tf.constant(0.0), tf.constant([1.0, 2.0, 3.0]),
    ...         lambda theta, state, x: (theta * state + x, []),
    ...     )
    ...     print(session.run(states))
    [ 1.  4. 11.]
    """
    whole = _each(tf.convert_to_tensor, inputs)
    time = tf.shape(_nest.flatten(whole)[0])[0]
    skipped: Any = 0
    if max_input_length is not None:
        length = tf.minimum(tf.to_int32(max_input_length), time)
        skipped = time - length if aligned_end else 0
        # No gradient passes through what is left out.
        whole = _each(lambda x: x[time - length :] if aligned_end else x[:length], whole)
    theta, state0 = _each(tf.convert_to_tensor, theta), _each(tf.convert_to_tensor, state0)
    if cell_grad is None:
        states = _scanned(lambda state, x: cell_fn(theta, state, x)[0], whole, state0)
    else:
        states = _with_gradient(theta, state0, whole, cell_fn, cell_grad, extras)
    last = _each(lambda value, first: tf.concat([first[None], value], 0)[-1], states, state0)
    for value, first in zip(_nest.flatten(last), _nest.flatten(state0), strict=True):
        value.set_shape(first.shape)
    if max_input_length is not None:
        states = _padded(states, skipped, time - length - skipped)
    return states, last


def _with_gradient(
    theta: Any, state0: Any, inputs: Any, cell_fn: Callable[..., Any], cell_grad: Callable[..., Any], extras: Any
) -> Any:
    """States at all times, whose gradient calls ``cell_grad`` at each."""
    given = (theta, state0, inputs)
    if extras is None:
        _, extras = cell_fn(theta, state0, _each(lambda x: x[0], inputs))
    empty = _each(tf.zeros_like, extras)

    @tf.custom_gradient
    def run(*flat: Any) -> Any:
        theta, state0, inputs = _nest.pack_sequence_as(given, flat)
        states, kept = _scanned(lambda held, x: cell_fn(theta, held[0], x), inputs, (state0, empty))
        results = _nest.flatten(states)

        def gradient(*of_states: Any) -> Any:
            before = _each(lambda first, value: tf.concat([first[None], value[:-1]], 0), state0, states)
            of_each = _nest.pack_sequence_as(states, of_states)
            backwards = _each(lambda value: value[::-1], (before, inputs, kept, of_each))

            def step(held: Any, now: Any) -> Any:
                of_theta, of_later, _ = held
                state, x, extra, of_this = now
                after = _each(tf.add, of_later, of_this)
                found = cell_grad(theta, state, x, extra, after)
                mine, earlier, of_x = _dense((theta, state, x), found)
                return _each(tf.add, of_theta, mine), earlier, of_x

            start = (
                _each(tf.zeros_like, theta),
                _each(tf.zeros_like, state0),
                _each(lambda x: tf.zeros_like(x[0]), inputs),
            )
            of_theta, of_state, of_inputs = _scanned(step, backwards, start)
            last = _each(lambda value: value[-1], (of_theta, of_state))
            return _nest.flatten((*last, _each(lambda value: value[::-1], of_inputs)))

        return results, gradient

    flat = _nest.flatten(given)
    results = run(*flat)
    return _nest.pack_sequence_as(state0, list(results) if isinstance(results, list | tuple) else [results])


def _dense(values: Any, gradients: Any) -> Any:
    """Gradients in the structure of what they are of, with zeros where there is None."""
    flat = _nest.flatten(values)
    found = _nest.flatten(gradients)
    if len(found) != len(flat):
        raise ValueError(
            errors.message(
                f"{len(found)} gradients of cell_grad",
                f"{len(flat)} gradients, in the structures of theta, state and inputs",
                "return Theta(w=of_w), State(h=of_h), Inputs(x=of_x)",
            )
        )
    pairs = zip(flat, found, strict=True)
    return _nest.pack_sequence_as(values, [tf.zeros_like(x) if g is None else g for x, g in pairs])


@public("contrib.recurrent.functional_rnn")
def functional_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    time_major: bool = False,
    scope: Any = None,
    use_tpu: bool = False,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Outputs of a recurrent cell and its last state, as ``tf.nn.dynamic_rnn`` gives them.

    Args:
        cell: an ``RNNCell``.
        inputs: ``[batch, time, size]``, or ``[time, batch, size]``.
        sequence_length: lengths ``[batch]``; outputs after them are zeros. All steps by default.
        initial_state: the first state; zeros by default.
        dtype: dtype of a state of zeros.
        time_major: time is the first axis.
        scope: variable scope; ``rnn`` by default.
        use_tpu: has no effect: all loops are compiled alike.
        reverse: go through all times backwards; shorter sequences begin with what follows their end.

    Returns:
        ``outputs``: like ``inputs``, with the cell's size; and the state after the last step of each sequence.
    """
    with tf.variable_scope(scope or "rnn"):
        if not time_major:
            inputs = _each(lambda x: tf.transpose(x, [1, 0, 2]), inputs)
        first = _nest.flatten(inputs)[0]
        batch = first.shape[1].value or tf.shape(first)[1]
        if initial_state is None:
            initial_state = cell.zero_state(batch, dtype)
        if reverse:
            inputs = _each(lambda x: tf.reverse(x, [0]), inputs)
        kind = _nest.flatten(initial_state)[0].dtype
        state0 = (tf.zeros([batch, cell.output_size], kind), initial_state)
        longest = None if sequence_length is None else tf.reduce_max(sequence_length)
        states, last = Recurrent(
            [],
            state0,
            inputs,
            lambda _, state, x: (cell(x, state[1]), []),
            max_input_length=longest,
            aligned_end=reverse,
        )
        outputs, end = states[0], last[1]
        if sequence_length is not None and not reverse:
            end = _each(lambda value: _at_ends(value, sequence_length), states[1])
        if reverse:
            outputs = tf.reverse(outputs, [0])
        if sequence_length is not None:
            mask = tf.transpose(tf.sequence_mask(sequence_length, tf.shape(outputs)[0], outputs.dtype))
            outputs *= mask[:, :, None]
        outputs.set_shape([first.shape[0], first.shape[1], cell.output_size])
        for value, start in zip(_nest.flatten(end), _nest.flatten(initial_state), strict=True):
            value.set_shape(start.shape)
        return (outputs if time_major else tf.transpose(outputs, [1, 0, 2])), end


def _at_ends(values: Any, lengths: Any) -> Any:
    """Of values ``[time, batch, ...]`` those at the last step of each sequence; zeros for empty ones."""
    lengths = tf.to_int32(lengths)
    batch = tf.range(tf.shape(values)[1])
    picked = tf.gather_nd(values, tf.stack([tf.maximum(lengths - 1, 0), batch], 1))
    there = tf.cast(lengths > 0, values.dtype)
    return picked * tf.reshape(there, [-1] + [1] * (values.shape.ndims - 2))


@public("contrib.recurrent.bidirectional_functional_rnn")
def bidirectional_functional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    time_major: bool = False,
    use_tpu: bool = False,
    fast_reverse: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Outputs and last states of two cells, one forwards and one backwards.

    Args:
        cell_fw: the cell that goes forwards.
        cell_bw: the cell that goes backwards.
        inputs: ``[batch, time, size]``, or ``[time, batch, size]``.
        initial_state_fw: first state of ``cell_fw``; zeros by default.
        initial_state_bw: first state of ``cell_bw``; zeros by default.
        dtype: dtype of states of zeros.
        sequence_length: lengths ``[batch]``.
        time_major: time is the first axis.
        use_tpu: has no effect.
        fast_reverse: go backwards from the end of all times, and not from the end of each sequence.
        scope: variable scope; ``bidirectional_rnn`` by default.

    Returns:
        A pair of outputs and a pair of states.
    """
    axis = 0 if time_major else 1

    def flipped(x: Any) -> Any:
        if sequence_length is None:
            return tf.reverse(x, [axis])
        return tf.reverse_sequence(x, sequence_length, seq_dim=axis, batch_dim=1 - axis)

    options: dict[str, Any] = {"sequence_length": sequence_length, "dtype": dtype, "time_major": time_major}
    with tf.variable_scope(scope or "bidirectional_rnn"):
        with tf.variable_scope("fw") as forwards:
            outputs, state = functional_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope=forwards, **options)
        with tf.variable_scope("bw") as backwards:
            back, back_state = functional_rnn(
                cell_bw,
                inputs if fast_reverse else _each(flipped, inputs),
                initial_state=initial_state_bw,
                scope=backwards,
                reverse=fast_reverse,
                **options,
            )
    return (outputs, back if fast_reverse else flipped(back)), (state, back_state)
