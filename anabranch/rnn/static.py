"""Recurrent networks over a list of inputs: one copy of the cell's ops for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.public_scopes import control_dependencies
from anabranch.core.graph.random_seed import OperationCount, count_more, counted_as, entering
from anabranch.core.values import dtypes, nest, shapes
from anabranch.ops.array.public_indexing import reverse_sequence
from anabranch.rnn.cells import assert_like_rnncell, concat
from anabranch.rnn.dynamic import choose, flat_sizes, infer_dtype
from anabranch.variables.scope import variable_scope


@public("nn.static_rnn", "contrib.rnn.static_rnn")
def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs.

    Args:
        cell: an `RNNCell`.
        inputs: one tensor ``[batch, ...]`` (or a structure of them) for each step.
        initial_state: the state to begin with; zeros if None.
        dtype: dtype of the state; needed if there is no ``initial_state``.
        sequence_length: int ``[batch]``: past the end of each sequence outputs are zeros and the state is passed on.
        scope: variable scope; ``rnn`` if None.

    Returns:
        ``(outputs, state)``: one output for each step, and the last state.

    Raises:
        TypeError: ``cell`` is not a cell, or ``inputs`` is not a list.
        ValueError: ``inputs`` is empty, or there is neither a state nor a dtype.
    """
    assert_like_rnncell("cell", cell)
    if not isinstance(inputs, (list, tuple)) or nest.is_namedtuple(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "rnn") as entered:
        first = [convert_to_tensor(item) for item in nest.flatten(inputs[0])]
        batch = _batch(first)
        if initial_state is not None:
            state = initial_state
        else:
            if dtype is None:
                raise ValueError(
                    "If no initial_state is provided, dtype must be specified\n"
                    + errors.message("neither initial_state nor dtype", "one of the two arguments", "dtype=tf.float32")
                )
            state = cell.zero_state(batch, dtype)
        length = None
        blank: list[Any] = []
        if sequence_length is not None:
            length = convert_to_tensor(sequence_length)
            if length._shape is not None and len(length._shape) not in (0, 1):
                raise ValueError("sequence_length must be a vector of length batch_size")
            with counted_as(
                5 + (length.dtype.base != dtypes.int32) + isinstance(batch, int)
            ):  # the shortest and the longest
                length = build("Cast", length, DstT=dtypes.int32)
            kind = infer_dtype(dtype if not nest.is_nested(dtype) else nest.flatten(dtype)[0], state)
            for size in flat_sizes(cell.output_size):
                zeros = build("Fill", concat(batch, size), constant(0, kind))
                zeros.set_shape([batch if isinstance(batch, int) else None, *size])
                blank.append(zeros)
        outputs = []
        for time, given in enumerate(inputs):
            if time > 0:
                entered.reuse_variables()
            if length is None:
                output, new = cell(given, state)
            else:
                count_more(8 + len(blank) + len(nest.flatten(state)))  # a conditional: zeros past the longest
                with entering() as taken:
                    output, new = cell(given, state)
                counted = OperationCount()
                flat = [nest.flatten(item) for item in (state, output, new)]
                number = _chosen(blank, flat[0], flat[1], flat[2], taken)
                done = build("GreaterEqual", constant(time), length)
                flat = [choose(done, b, o) for b, o in zip(blank, nest.flatten(output), strict=True)]
                output = nest.pack_sequence_as(output, flat)
                new = nest.map_structure(lambda old, item, done=done: choose(done, old, item), state, new)
                counted.set(number)
            state = new
            outputs.append(output)
        return outputs, state


def _chosen(blank: list[Any], state: list[Any], output: list[Any], new: list[Any], taken: set[Any]) -> int:
    """What TensorFlow builds behind a step to choose its results: a conditional, which most tensors enter.

    Past the shortest sequence, which it looks at, rows are chosen one by one.
    """
    number, found = len(blank) + len(state), len({*output, *new})
    selected = 2 + 2 * len(blank) + sum(1 if tensor in taken else 2 for tensor in state) + found + number
    return 7 + found + selected + 2 * number


def _batch(flat: Sequence[Any]) -> Any:
    for tensor in flat:
        if tensor._shape is None or len(tensor._shape) < 1:
            continue
        if tensor._shape[0] is not None:
            return tensor._shape[0]
    first = flat[0]
    if first._shape is not None and len(first._shape) < 1:
        raise ValueError(
            errors.message(
                f"input {first._label} of shape {shapes.show(first._shape)}",
                "a tensor [batch, ...]",
                "tf.expand_dims(x, 0)",
            )
        )
    return build("StridedSlice", build("Shape", first), [0], [1], [1], shrink_axis_mask=1)


@public("nn.static_state_saving_rnn", "contrib.rnn.static_state_saving_rnn")
def static_state_saving_rnn(
    cell: Any, inputs: Sequence[Any], state_saver: Any, state_name: Any, sequence_length: Any = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """Like :func:`static_rnn`, with the state kept by ``state_saver`` from one step of training to the next.

    Args:
        cell: an `RNNCell`.
        inputs: one tensor for each step.
        state_saver: an object with ``state(name)`` and ``save_state(name, value)``.
        state_name: name of the state, or a tuple of names like the structure of the state.
        sequence_length: as for :func:`static_rnn`.
        scope: variable scope.
    """
    sizes = cell.state_size
    if nest.is_nested(sizes) != nest.is_nested(state_name) or (
        nest.is_nested(sizes) and len(nest.flatten(state_name)) != len(nest.flatten(sizes))
    ):
        raise ValueError(
            "state_name should be the same type as cell.state_size\n"
            + errors.message(f"state_name {state_name!r}", f"a structure like {sizes}", "one name for each part")
        )
    names = nest.flatten(state_name)
    state = nest.pack_sequence_as(sizes, [state_saver.state(name) for name in names])
    outputs, final = static_rnn(cell, inputs, initial_state=state, sequence_length=sequence_length, scope=scope)
    saves = [state_saver.save_state(name, part) for name, part in zip(names, nest.flatten(final), strict=True)]
    with control_dependencies(saves):
        last = nest.map_structure(lambda item: build("Identity", item), outputs[-1])
        final = nest.map_structure(lambda item: build("Identity", item), final)
    return [*outputs[:-1], last], final


@public("nn.static_bidirectional_rnn", "contrib.rnn.static_bidirectional_rnn")
def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Run a cell over a list of inputs in each direction.

    Returns:
        ``(outputs, state_fw, state_bw)``: the outputs of both, joined along the last axis.
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw:
            forward, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=fw)
        with variable_scope("bw") as bw:
            turned = _turned(list(inputs), sequence_length)
            backward, state_bw = static_rnn(cell_bw, turned, initial_state_bw, dtype, sequence_length, scope=bw)
    outputs = []
    for left, right in zip(forward, _turned(backward, sequence_length), strict=True):
        joined = [
            build("ConcatV2", [a, b], constant(1)) for a, b in zip(nest.flatten(left), nest.flatten(right), strict=True)
        ]
        outputs.append(nest.pack_sequence_as(left, joined))
    return outputs, state_fw, state_bw


def _turned(steps: list[Any], length: Any) -> list[Any]:
    """The steps in reverse, each sequence within its length."""
    if length is None:
        return list(reversed(steps))
    columns = [nest.flatten(step) for step in steps]
    turned = []
    for parts in zip(*columns, strict=True):
        stacked = build("Pack", [convert_to_tensor(part) for part in parts], axis=0)
        back = reverse_sequence(stacked, length, seq_axis=0, batch_axis=1)
        unpacked = list(build("Unpack", back, num=len(steps), axis=0))
        for part, reversed_part in zip(parts, unpacked, strict=True):
            reversed_part.set_shape(part.shape)
        turned.append(unpacked)
    return [nest.pack_sequence_as(steps[0], list(parts)) for parts in zip(*turned, strict=True)]
