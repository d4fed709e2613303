"""Recurrent networks over time in a loop: ``dynamic_rnn``, its two-directional form, and ``raw_rnn``.

Time is the first dimension inside. Past the end of a sequence (``sequence_length``) outputs are zeros and the state
stays what it was: the cell runs there, and its results are not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.values import dtypes, nest, shapes
from anabranch.ops.array.public_indexing import reverse, reverse_sequence
from anabranch.ops.control.public_while import while_loop
from anabranch.ops.lists.public_tensor_array import TensorArray
from anabranch.rnn.cells import assert_like_rnncell, concat
from anabranch.variables.scope import variable_scope


def transposed(x: Any) -> Any:
    """``x`` with its first two dimensions exchanged: ``[batch, time, ...]`` and ``[time, batch, ...]``."""
    x = convert_to_tensor(x)
    shape = x._shape
    if shape is None:
        rank = build("Rank", x)
        order = build("ConcatV2", [constant([1, 0]), build("Range", constant(2), rank, constant(1))], constant(0))
        return build("Transpose", x, order, name="transpose")
    if len(shape) < 2:
        raise ValueError(
            f"Expected input tensor {x._label} to have rank at least 2, but saw shape: {shapes.show(shape)}\n"
            + errors.message(
                f"tensor {x._label} of shape {shapes.show(shape)}",
                "a tensor [batch, time, ...]",
                "tf.expand_dims(x, 0)",
            )
        )
    with counted_as(8):  # of an order that TensorFlow computes
        return build("Transpose", x, [1, 0, *range(2, len(shape))], name="transpose")  # fetched as `rnn/transpose_1`


def best_effort_batch(flat_input: list[Any]) -> Any:
    """Batch size of time-major inputs: a number if one of them knows it, else a tensor."""
    for tensor in flat_input:
        if tensor._shape is None or len(tensor._shape) < 2:
            continue
        if tensor._shape[1] is not None:
            return tensor._shape[1]
    return build("StridedSlice", build("Shape", flat_input[0]), [1], [2], [1], shrink_axis_mask=1)


def flat_sizes(sizes: Any) -> list[list[int | None]]:
    """Shapes without batch of a structure of sizes."""
    return [[size] if isinstance(size, int) else shapes.TensorShape(size).as_list() for size in nest.flatten(sizes)]


def infer_dtype(dtype: Any, state: Any) -> Any:
    """``dtype``, or the one dtype of the parts of ``state``.

    Raises:
        ValueError: there is no state, or its parts differ.
    """
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    kinds = [tensor.dtype.base for tensor in nest.flatten(state)]
    if not kinds:
        raise ValueError("Unable to infer dtype from empty state.")
    if any(other is not kinds[0] for other in kinds):
        raise ValueError(
            "State has tensors of different inferred_dtypes. Unable to infer a single representative dtype."
        )
    return kinds[0]


def checked_length(sequence_length: Any, batch: Any) -> Any:
    """The lengths as int32 ``[batch]``; the step fails if there are not as many as sequences."""
    length = convert_to_tensor(sequence_length)
    length = build("Cast", length, DstT=dtypes.int32, name="sequence_length")
    if length._shape is not None and len(length._shape) not in (0, 1):
        raise ValueError(
            "sequence_length must be a vector of length batch_size, but saw shape: "
            f"{shapes.show(length._shape)}\n"
            + errors.message(
                f"lengths of shape {shapes.show(length._shape)}",
                "lengths of shape [batch]",
                "tf.reshape(lengths, [-1])",
            )
        )
    same = build("Equal", build("Shape", length), build("Pack", [convert_to_tensor(batch, dtypes.int32)], axis=0))
    message = ["Expected shape for Tensor sequence_length is [batch], but saw shape:", build("Shape", length)]
    from_here = build("Assert", build("All", same, [0]), message)
    with control_dependencies([from_here]):
        return build("Identity", length, name="CheckSeqLen")


def choose(done: Any, old: Any, new: Any) -> Any:
    """``old`` in the rows where ``done`` holds, else ``new``; scalars and arrays of tensors are taken as they are."""
    if hasattr(new, "flow") or new._shape == ():
        return new
    chosen = build("Select", done, old, new)
    chosen.set_shape(new.shape)
    return chosen


@public("nn.dynamic_rnn")
def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Run a cell over time.

    Args:
        cell: an `RNNCell`.
        inputs: ``[batch, time, ...]``, or ``[time, batch, ...]`` if ``time_major``; or a structure of such tensors.
        sequence_length: int ``[batch]``: past the end of each sequence outputs are zeros and the state is passed on.
        initial_state: the state to begin with; zeros if None.
        dtype: dtype of the state; needed if there is no ``initial_state``.
        parallel_iterations: as for `tf.while_loop`.
        swap_memory: as for `tf.while_loop`.
        time_major: whether time is the first dimension.
        scope: variable scope; ``rnn`` if None.

    Returns:
        ``(outputs, state)``: outputs of all steps, ``[batch, time, ...]`` (or time first), and the last state.

    Raises:
        TypeError: ``cell`` is not a cell.
        ValueError: shapes or dtypes do not fit, or there is neither a state nor a dtype.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     x = tf.zeros([2, 5, 3])
        ...     outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), x, dtype=tf.float32)
        ...     print(outputs.shape, state.shape)
        (2, 5, 4) (2, 4)
    """
    assert_like_rnncell("cell", cell)
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(item) for item in nest.flatten(inputs)]
        if not time_major:
            flat = [transposed(item) for item in flat]
        batch = best_effort_batch(flat)
        if sequence_length is not None:
            sequence_length = checked_length(sequence_length, batch)
        if initial_state is not None:
            state = initial_state
        else:
            if dtype is None:
                raise ValueError(
                    "If there is no initial_state, you must give a dtype.\n"
                    + errors.message("neither initial_state nor dtype", "one of the two arguments", "dtype=tf.float32")
                )
            make = getattr(cell, "get_initial_state", None)
            state = make(inputs=None, batch_size=batch, dtype=dtype) if make else cell.zero_state(batch, dtype)
        state = nest.map_structure(lambda part: part if hasattr(part, "flow") else convert_to_tensor(part), state)
        outputs, final = _over_time(
            cell,
            nest.pack_sequence_as(inputs, flat),
            state,
            sequence_length,
            dtype,
            parallel_iterations or 32,
            swap_memory,
        )
        if not time_major:
            outputs = nest.map_structure(transposed, outputs)
        return outputs, final


def _over_time(
    cell: Any,
    inputs: Any,
    state: Any,
    length: Any | None,
    dtype: Any,
    parallel_iterations: int,
    swap_memory: bool,
) -> tuple[Any, Any]:
    flat = nest.flatten(inputs)
    for tensor in flat:
        if tensor._shape is None or any(size is None for size in tensor._shape[2:]):
            raise ValueError(
                "Input size (depth of inputs) must be accessible via shape inference, but saw value None.\n"
                + errors.message(
                    f"inputs of shape {shapes.show(tensor._shape)}",
                    "inputs whose sizes after batch and time are known",
                    "inputs.set_shape([None, None, n])",
                )
            )
    steps = flat[0]._shape[0]
    batch = best_effort_batch(flat)
    for tensor in flat:
        if steps is not None and tensor._shape[0] not in (None, steps):
            raise ValueError(
                "Time steps is not the same for all the elements in the input in a batch.\n"
                + errors.message(
                    f"inputs of {steps} and {tensor._shape[0]} steps",
                    "inputs of one number of steps",
                    "tf.pad(inputs, ...), or inputs[:, :steps]",
                )
            )
    count = build("StridedSlice", build("Shape", flat[0]), [0], [1], [1], shrink_axis_mask=1)
    count = count if steps is None else constant(steps)
    sizes = flat_sizes(cell.output_size)
    kinds = (
        [dtypes.as_dtype(item) for item in nest.flatten(dtype)]
        if nest.is_nested(dtype)
        else [infer_dtype(dtype, state)] * len(sizes)
    )
    known_batch = batch if isinstance(batch, int) else None
    # Shapes of the outputs of a step with the batch as it is: there may be no step that tells it.
    forms = [concat(batch, size) for size in sizes]
    lists = [
        build(
            "TensorListReserve",
            form,
            count,
            element_dtype=kind,
            shape_type=dtypes.int32,
            name="output",
        )
        for form, kind in zip(forms, kinds, strict=True)
    ]
    # Lists rather than arrays: a list is read and written by position inside the loop, and its gradient is one, too.
    sources = [
        build(
            "TensorListFromTensor",
            tensor,
            constant([-1 if s is None else s for s in tensor._shape[1:]], dtypes.int32),
            element_dtype=tensor.dtype.base,
            shape_type=dtypes.int32,
            name="input",
        )
        for tensor in flat
    ]

    fixed = isinstance(batch, int)
    # Arrays and their sizes, which TensorFlow computes; each more input is an array, too.
    count_more(4 + 8 * len(flat) + (8 - fixed) * (length is not None) + (steps is None))

    def step(time: Any, written: tuple[Tensor, ...], state: Any) -> Any:
        read = []
        for source, tensor in zip(sources, flat, strict=True):
            shape = constant([-1 if s is None else s for s in tensor._shape[1:]], dtypes.int32)
            item = build("TensorListGetItem", source, time, shape, element_dtype=tensor.dtype.base)
            item.set_shape(tensor._shape[1:])
            read.append(item)
        given = nest.pack_sequence_as(inputs, read)
        output, new = cell(given, state)
        nest.assert_same_structure(state, new)
        nest.assert_same_structure(cell.output_size, output)
        outputs = nest.flatten(output)
        if length is not None:
            done = build("GreaterEqual", time, length)
            # Past its end a sequence gives zeros and keeps the state of its last step.
            blank = [build("ZerosLike", item) for item in outputs]
            outputs = [choose(done, old, item) for old, item in zip(blank, outputs, strict=True)]
            new = nest.map_structure(lambda old, item: choose(done, old, item), state, new)
        written = tuple(
            build("TensorListSetItem", held, time, item, element_dtype=item.dtype.base)
            for held, item in zip(written, outputs, strict=True)
        )
        return time + 1, written, new

    _, written, final = while_loop(
        lambda time, *_: time < count,
        step,
        (constant(0, name="time"), tuple(lists), state),
        parallel_iterations=parallel_iterations,
        maximum_iterations=count,
        swap_memory=swap_memory,
        name="while",
    )
    count_more(-1 - 2 * (length is not None) - (steps is None and fixed))
    outputs = []
    for held, form, size, kind in zip(written, forms, sizes, kinds, strict=True):
        with name_scope(None, "TensorArrayStack"):  # TensorFlow's names, which programs fetch
            whole = build(
                "TensorListStack",
                held,
                form,
                element_dtype=kind,
                num_elements=-1 if steps is None else steps,
                name="TensorArrayGatherV3",
            )
        whole.set_shape([steps, known_batch, *size])
        count_more(7 + fixed)
        outputs.append(whole)
    return nest.pack_sequence_as(cell.output_size, outputs), final


@public("nn.bidirectional_dynamic_rnn")
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Run a cell over time in each direction.

    Args:
        cell_fw: the cell that goes forward.
        cell_bw: the cell that goes backward; within each sequence if there is a ``sequence_length``.
        inputs: as for :func:`dynamic_rnn`.
        sequence_length: as for :func:`dynamic_rnn`.
        initial_state_fw: state that the forward cell begins with.
        initial_state_bw: state that the backward cell begins with.
        dtype: dtype of states that are not given.
        parallel_iterations: as for `tf.while_loop`.
        swap_memory: as for `tf.while_loop`.
        time_major: whether time is the first dimension.
        scope: variable scope; ``bidirectional_rnn`` if None.

    Returns:
        ``((outputs_fw, outputs_bw), (state_fw, state_bw))``, outputs in the order of time.
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def reversed_in_time(x: Any) -> Any:
        if sequence_length is not None:
            return reverse_sequence(x, sequence_length, seq_axis=time_axis, batch_axis=batch_axis)
        return reverse(x, axis=[time_axis])

    options: dict[str, Any] = {
        "sequence_length": sequence_length,
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw:
            forward, state_fw = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope=fw, **options)
        with variable_scope("bw") as bw:
            turned = nest.map_structure(reversed_in_time, inputs)
            backward, state_bw = dynamic_rnn(cell_bw, turned, initial_state=initial_state_bw, scope=bw, **options)
    return (forward, nest.map_structure(reversed_in_time, backward)), (state_fw, state_bw)


@public("nn.raw_rnn")
def raw_rnn(
    cell: Any,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run a cell in a loop that a function steers.

    Args:
        cell: an `RNNCell`.
        loop_fn: ``(time, cell_output, cell_state, loop_state) -> (finished, next_input, next_cell_state, emit_output,
            next_loop_state)``. At time 0 the output is None, and ``emit_output`` has shapes and dtypes of what is
            emitted (None: those of the cell's output).
        parallel_iterations: as for `tf.while_loop`.
        swap_memory: as for `tf.while_loop`.
        scope: variable scope; ``rnn`` if None.

    Returns:
        ``(emitted, final_state, final_loop_state)``; emitted are TensorArrays, one element per step.
    """
    assert_like_rnncell("cell", cell)
    if not callable(loop_fn):
        raise TypeError(errors.message(f"loop_fn {loop_fn!r}", "a function", "see tf.nn.raw_rnn"))
    with variable_scope(scope or "rnn"):
        time = constant(0, dtypes.int32)
        finished, next_input, state, emit, loop_state = loop_fn(time, None, None, None)
        flat_input = [convert_to_tensor(item) for item in nest.flatten(next_input)]
        has_loop_state = loop_state is not None
        loop_state = loop_state if has_loop_state else constant(0, dtypes.int32)
        first = flat_input[0]
        batch: Any = first._shape[0] if first._shape and first._shape[0] is not None else None
        if batch is None:
            batch = build("StridedSlice", build("Shape", first), [0], [1], [1], shrink_axis_mask=1)
        nest.assert_same_structure(state, cell.state_size)
        if emit is not None:
            structure = nest.map_structure(convert_to_tensor, emit)
            kinds = [item.dtype.base for item in nest.flatten(structure)]
            sizes: list[Any] = [
                item._shape if item.shape.is_fully_defined() else build("Shape", item)
                for item in nest.flatten(structure)
            ]
            known_sizes = [item._shape for item in nest.flatten(structure)]
        else:
            structure = cell.output_size
            sizes = known_sizes = flat_sizes(structure)
            kinds = [nest.flatten(state)[0].dtype.base] * len(sizes)
        known = batch if isinstance(batch, int) else None
        arrays = [
            TensorArray(dtype=kind, dynamic_size=True, size=0, element_shape=[known, *size], name="rnn_output")
            if size is not None
            else TensorArray(dtype=kind, dynamic_size=True, size=0, name="rnn_output")
            for kind, size in zip(kinds, known_sizes, strict=True)
        ]

        def blank(size: Any, kind: Any, known_size: Any) -> Any:
            if isinstance(size, Tensor):
                shape = build("ConcatV2", [build("ExpandDims", batch, 0), size], 0)
            else:
                shape = concat(batch, list(size))
            zeros = build("Fill", shape, constant(0, kind))
            if known_size is not None:
                zeros.set_shape([known, *known_size])
            return zeros

        # What sequences that are finished emit, while others of the batch go on.
        zeros = [blank(*each) for each in zip(sizes, kinds, known_sizes, strict=True)]

        def body(time: Any, done: Any, current: Any, written: Any, state: Any, loop_state: Any) -> Any:
            output, cell_state = cell(current, state)
            nest.assert_same_structure(cell.output_size, output)
            later = time + 1
            next_done, next_input, next_state, emitted, next_loop_state = loop_fn(
                later, output, cell_state, loop_state if has_loop_state else None
            )
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(current, next_input)
            emitted = output if emitted is None else emitted
            items = [
                choose(done, old, convert_to_tensor(item))
                for old, item in zip(zeros, nest.flatten(emitted), strict=True)
            ]
            next_state = nest.map_structure(lambda old, new: choose(done, old, new), state, next_state)
            written = tuple(array.write(time, item) for array, item in zip(written, items, strict=True))
            # `loop_fn` says who ends now; who has ended stays so.
            next_done = build("LogicalOr", next_done, done)
            return later, next_done, next_input, written, next_state, next_loop_state if has_loop_state else loop_state

        loop_vars = (time, finished, next_input, tuple(arrays), state, loop_state)
        _, _, _, written, final, final_loop = while_loop(
            lambda time, done, *_: build("LogicalNot", build("All", done, _axes(done))),
            body,
            loop_vars,
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
        emitted = nest.pack_sequence_as(structure, list(written))
        return emitted, final, final_loop if has_loop_state else None


def _axes(tensor: Any) -> Any:
    if tensor._shape is not None:
        return constant(list(range(len(tensor._shape))), dtypes.int32)
    with name_scope("axes"):
        return build("Range", constant(0), build("Rank", tensor), constant(1))
