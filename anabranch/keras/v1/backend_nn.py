"""Functions of networks in ``tf.keras.backend``: convolutions, pooling, recurrences, losses on tensors, padding."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.random_seed import count_more
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.state import data_format_of


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0) -> Any:
    """Rectified linear unit: ``max_value`` above, ``x`` from the threshold on, ``alpha * (x - threshold)`` below."""
    if not alpha and max_value is None and threshold == 0:
        return tf.nn.relu(x)
    if not alpha and max_value == 6 and threshold == 0:
        return tf.nn.relu6(x)
    if alpha and max_value is None and threshold == 0:
        return tf.nn.leaky_relu(x, alpha=alpha)
    x = tf.convert_to_tensor(x)
    kind = x.dtype.base_dtype
    positive = x * tf.cast(x > threshold, kind) if threshold else tf.nn.relu(x)
    if max_value is not None:
        positive = tf.clip_by_value(positive, tf.cast(0, kind), tf.cast(max_value, kind))
    if alpha:
        return positive - tf.cast(alpha, kind) * tf.nn.relu(threshold - x)
    return positive


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Exponential linear unit."""
    y = tf.nn.elu(x)
    return y if alpha == 1 else tf.where(x > 0, y, alpha * y)


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax along an axis."""
    return tf.nn.softmax(x, axis=axis)


def hard_sigmoid(x: Any) -> Any:
    """The sigmoid as three straight lines: ``0.2 x + 0.5`` within 0 and 1."""
    return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


def dropout(x: Any, level: float, noise_shape: Any = None, seed: int | None = None) -> Any:
    """Set a share of the elements to zero and scale the others."""
    return tf.nn.dropout(x, rate=level, noise_shape=noise_shape, seed=K._seed(seed))


def l2_normalize(x: Any, axis: Any = None) -> Any:
    """Scale to norm 1."""
    return tf.nn.l2_normalize(x, axis=axis)


def in_top_k(predictions: Any, targets: Any, k: int) -> Any:
    """Whether targets are among the ``k`` greatest predictions."""
    return tf.nn.in_top_k(predictions, targets, k)


# ------------------------------------------------------------------------------------------------------- cross-entropy


def _logits(output: Any, from_logits: bool, op_type: str) -> Any:
    """The logits behind an output: its own, or those that an activation was applied to."""
    if from_logits:
        return output
    made = None if state.is_eager() or isinstance(output, tf.Variable) else output.op
    return made.inputs[0] if made is not None and made.type == op_type else None


def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """Cross-entropy of distributions ``[..., classes]``."""
    logits = _logits(output, from_logits, "Softmax")
    if logits is not None:
        return tf.nn.softmax_cross_entropy_with_logits_v2(labels=target, logits=logits, axis=axis)
    output = output / tf.reduce_sum(output, axis, True)
    small = tf.cast(state.epsilon(), output.dtype.base_dtype)
    output = tf.clip_by_value(output, small, 1.0 - small)
    return -tf.reduce_sum(target * tf.log(output), axis)


def sparse_categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """Cross-entropy of class numbers and distributions ``[..., classes]``."""
    logits = _logits(output, from_logits, "Softmax")
    if logits is None:
        small = tf.cast(state.epsilon(), output.dtype.base_dtype)
        logits = tf.log(tf.clip_by_value(output, small, 1 - small))
    rank = K.ndim(logits)
    if rank is not None and axis % rank != rank - 1:
        order = [i for i in range(rank) if i != axis % rank]
        logits = tf.transpose(logits, [*order, axis % rank])
    target = tf.cast(target, tf.int64)
    if rank is not None and K.ndim(target) == rank - 1 and rank > 1:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    shape = tf.shape(logits)
    flat = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(target, [-1]), logits=tf.reshape(logits, [-1, K.int_shape(logits)[-1]])
    )
    return flat if rank == 2 else tf.reshape(flat, shape[:-1])


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Cross-entropy of each element."""
    logits = _logits(output, from_logits, "Sigmoid")
    if logits is not None:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
    small = tf.cast(state.epsilon(), output.dtype.base_dtype)
    output = tf.clip_by_value(output, small, 1.0 - small)
    return -(target * tf.log(output + small) + (1 - target) * tf.log(1 - output + small))


# --------------------------------------------------------------------------------------------------------- convolution
_CHANNELS_FIRST = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
_CHANNELS_LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


def letters(data_format: str | None, rank: int) -> str:
    """TensorFlow's name of a data format for inputs of this rank."""
    return (_CHANNELS_FIRST if data_format_of(data_format) == "channels_first" else _CHANNELS_LAST)[rank]


def channels_last(x: Any, data_format: str) -> Any:
    """A tensor with its channels at the end."""
    if data_format == "channels_last":
        return x
    return tf.transpose(x, [0, *range(2, K.ndim(x)), 1])


def channels_back(x: Any, data_format: str) -> Any:
    """A tensor whose channels are at the end, put back as the data format says."""
    if data_format == "channels_last":
        return x
    rank = K.ndim(x)
    return tf.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def _padding(padding: str) -> str:
    if padding.lower() not in {"same", "valid"}:
        raise ValueError(
            f"Invalid padding: {padding}\n" + errors.message(repr(padding), "'same' or 'valid'", "padding='same'")
        )
    return padding.upper()


def pair(value: Any, rank: int) -> tuple[int, ...]:
    """One number for each spatial axis."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _conv(x: Any, kernel: Any, strides: Any, padding: str, data_format: str | None, dilation_rate: Any) -> Any:
    form = data_format_of(data_format)
    rank = len(K.dims(kernel.shape)) - 2
    y = tf.nn.convolution(
        channels_last(x, form),
        kernel,
        padding=_padding(padding),
        strides=pair(strides, rank),
        dilation_rate=pair(dilation_rate, rank),
    )
    return channels_back(y, form)


def conv1d(
    x: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolution along time; ``'causal'`` padding looks only back."""
    if padding == "causal":
        x = temporal_padding(x, (dilation_rate * (K.int_shape(kernel)[0] - 1), 0))
        padding = "valid"
    return _conv(x, kernel, strides, padding, data_format, dilation_rate)


def conv2d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Convolution of images."""
    return _conv(x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1, 1),
) -> Any:
    """Convolution of volumes."""
    return _conv(x, kernel, strides, padding, data_format, dilation_rate)


def conv2d_transpose(
    x: Any,
    kernel: Any,
    output_shape: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Transposed convolution of images, to this shape."""
    form = data_format_of(data_format)
    sizes = list(output_shape) if isinstance(output_shape, (list, tuple)) else tf.unstack(output_shape)
    if form == "channels_first":
        sizes = [sizes[0], sizes[2], sizes[3], sizes[1]]
    if sizes[0] is None:
        sizes[0] = tf.shape(x)[0]
    y = tf.nn.conv2d_transpose(
        channels_last(x, form), kernel, tf.stack(sizes), (1, *pair(strides, 2), 1), padding=_padding(padding)
    )
    return channels_back(y, form)


def depthwise_conv2d(
    x: Any,
    depthwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Convolution of each channel by itself."""
    form = data_format_of(data_format)
    y = tf.nn.depthwise_conv2d(
        channels_last(x, form),
        depthwise_kernel,
        (1, *pair(strides, 2), 1),
        _padding(padding),
        rate=pair(dilation_rate, 2),
    )
    return channels_back(y, form)


def separable_conv2d(
    x: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Convolution of each channel by itself, then of the channels at each point."""
    form = data_format_of(data_format)
    y = tf.nn.separable_conv2d(
        channels_last(x, form),
        depthwise_kernel,
        pointwise_kernel,
        (1, *pair(strides, 2), 1),
        _padding(padding),
        rate=pair(dilation_rate, 2),
    )
    return channels_back(y, form)


def pool(x: Any, size: Any, strides: Any, padding: str, data_format: str | None, mode: str) -> Any:
    """Greatest or mean values of windows."""
    form = data_format_of(data_format)
    if mode not in {"max", "avg"}:
        raise ValueError(f"Invalid pooling mode: {mode}\n" + errors.message(repr(mode), "'max' or 'avg'", "'max'"))
    rank = K.ndim(x) - 2
    y = tf.nn.pool(
        channels_last(x, form),
        pair(size, rank),
        mode.upper(),
        _padding(padding),
        strides=pair(size if strides is None else strides, rank),
    )
    return channels_back(y, form)


def pool2d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Pooling of images."""
    return pool(x, pool_size, strides, padding, data_format, pool_mode)


def pool3d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Pooling of volumes."""
    return pool(x, pool_size, strides, padding, data_format, pool_mode)


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """Add a bias ``[channels]``, or one of the shape of all but the batch."""
    form = data_format_of(data_format)
    shape, rank = K.dims(bias.shape), K.ndim(x)
    if len(shape) == 1:
        if form == "channels_last" or rank == 2:
            return tf.nn.bias_add(x, bias)
        return x + tf.reshape(bias, (1, shape[0]) + (1,) * (rank - 2))
    whole = (1, *shape) if form == "channels_last" else (1, shape[-1], *shape[:-1])
    return x + tf.reshape(bias, whole)


# --------------------------------------------------------------------------------------------------- padding, resizing


def _pad(x: Any, pads: Any, data_format: str | None) -> Any:
    form = data_format_of(data_format)
    inner = [list(pad) for pad in pads]
    whole = [[0, 0], *inner, [0, 0]] if form == "channels_last" else [[0, 0], [0, 0], *inner]
    return tf.pad(x, whole)


def temporal_padding(x: Any, padding: Any = (1, 1)) -> Any:
    """Zeros before and after in time."""
    return tf.pad(x, [[0, 0], list(padding), [0, 0]])


def spatial_2d_padding(x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None) -> Any:
    """Zeros around images."""
    return _pad(x, padding, data_format)


def spatial_3d_padding(x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None) -> Any:
    """Zeros around volumes."""
    return _pad(x, padding, data_format)


def resize_images(
    x: Any, height_factor: int, width_factor: int, data_format: str, interpolation: str = "nearest"
) -> Any:
    """Images made greater by whole factors."""
    form = data_format_of(data_format)
    x = channels_last(x, form)
    height, width = K.int_shape(x)[1:3]
    size = tf.shape(x)[1:3] * tf.constant([height_factor, width_factor])
    if interpolation == "nearest":
        y = tf.image.resize_nearest_neighbor(x, size)
    elif interpolation == "bilinear":
        y = tf.image.resize_bilinear(x, size, half_pixel_centers=True)
    else:
        raise ValueError(
            'interpolation should be one of "nearest" or "bilinear".\n'
            + errors.message(repr(interpolation), "'nearest' or 'bilinear'", "interpolation='nearest'")
        )
    y.set_shape([None, height and height * height_factor, width and width * width_factor, None])
    return channels_back(y, form)


def resize_volumes(x: Any, depth_factor: int, height_factor: int, width_factor: int, data_format: str) -> Any:
    """Volumes made greater by whole factors."""
    first = 2 if data_format_of(data_format) == "channels_first" else 1
    for axis, factor in enumerate((depth_factor, height_factor, width_factor)):
        x = K.repeat_elements(x, factor, axis + first)
    return x


# ------------------------------------------------------------------------------------------------------- normalisation
def normalize_batch_in_training(x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: float = 1e-3) -> Any:
    """Normalise by the batch; returns the result, mean and variance."""
    axes = list(reduction_axes)
    mean, variance = tf.nn.moments(x, axes)
    shape = [1 if i in axes else size or -1 for i, size in enumerate(K.int_shape(x))]
    parts = [None if part is None else tf.reshape(part, shape) for part in (mean, variance, beta, gamma)]
    return tf.nn.batch_normalization(x, *parts, epsilon), mean, variance


def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Any:
    """Normalise by a given mean and variance."""
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


# ----------------------------------------------------------------------------------------------------------------- CTC
def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> Any:
    """Labels ``[batch, most]`` of these lengths as a sparse tensor."""
    mask = tf.sequence_mask(tf.cast(tf.reshape(label_lengths, [-1]), tf.int32), tf.shape(labels)[1])
    places = tf.where(mask)
    return tf.SparseTensor(places, tf.gather_nd(labels, places), tf.cast(tf.shape(labels), tf.int64))


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Any:
    """CTC loss of each row ``[batch, 1]``."""
    labels = tf.cast(ctc_label_dense_to_sparse(y_true, label_length), tf.int32)
    logs = tf.log(tf.transpose(y_pred, [1, 0, 2]) + state.epsilon())
    lengths = tf.cast(tf.squeeze(input_length, -1), tf.int32)
    return tf.expand_dims(tf.nn.ctc_loss(inputs=logs, labels=labels, sequence_length=lengths), 1)


def ctc_decode(
    y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[Any], Any]:
    """The best label sequences, filled up with -1, and their log probabilities."""
    logs = tf.log(tf.transpose(y_pred, [1, 0, 2]) + state.epsilon())
    lengths = tf.cast(input_length, tf.int32)
    if greedy:
        decoded, scores = tf.nn.ctc_greedy_decoder(inputs=logs, sequence_length=lengths)
    else:
        decoded, scores = tf.nn.ctc_beam_search_decoder(
            inputs=logs, sequence_length=lengths, beam_width=beam_width, top_paths=top_paths
        )
    return [tf.sparse_to_dense(d.indices, d.dense_shape, d.values, default_value=-1) for d in decoded], scores


# ---------------------------------------------------------------------------------------------------------- recurrence
def _expanded(mask: Any, like: Any) -> Any:
    for _ in range(K.ndim(like) - K.ndim(mask)):
        mask = tf.expand_dims(mask, -1)
    return tf.logical_and(mask, tf.ones_like(like, dtype=tf.bool))


def _held(mask: Any, new: Any, old: Any) -> Any:
    return tf.where(_expanded(mask, new), new, old)


def rnn(
    step_function: Any,
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
) -> tuple[Any, Any, list[Any]]:
    """A recurrence over time.

    Args:
        step_function: ``(inputs [batch, ...], states) -> (output, states)``.
        inputs: ``[batch, time, ...]``; a structure of tensors.
        initial_states: tensors ``[batch, ...]``.
        go_backwards: begin with the last step.
        mask: ``[batch, time]``; a step that is masked holds output and states.
        constants: tensors that every step gets after its states.
        unroll: write the steps out.
        input_length: number of steps, where the shape does not say it.
        time_major: axes of inputs and outputs are ``[time, batch, ...]``.
        zero_output_for_mask: outputs of masked steps are zeros.

    Returns:
        The last output, all outputs, and the last states.
    """
    nest = tf.contrib.framework.nest
    constants = list(constants or [])

    def swapped(x: Any) -> Any:
        return tf.transpose(x, [1, 0, *range(2, K.ndim(x))])

    if not time_major:
        inputs = nest.map_structure(swapped, inputs)
    flat = nest.flatten(inputs)
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        mask = mask if time_major else tf.transpose(tf.squeeze(mask, -1) if K.ndim(mask) == 3 else mask, [1, 0])
    if go_backwards:
        flat = [tf.reverse(x, [0]) for x in flat]
        mask = None if mask is None else tf.reverse(mask, [0])
    known = K.int_shape(flat[0])[0]

    def step(pieces: list[Any], states: Any) -> tuple[Any, list[Any]]:
        output, new = step_function(nest.pack_sequence_as(inputs, pieces), [*states, *constants])
        return output, list(new)

    def masked(at: Any, output: Any, before: Any, new: list[Any], old: Any) -> tuple[Any, list[Any]]:
        held = tf.zeros_like(output) if before is None or zero_output_for_mask else before
        return _held(at, output, held), [_held(at, n, o) for n, o in zip(new, old, strict=True)]

    states = list(initial_states)
    if unroll:
        if not known:
            raise ValueError(
                "Unrolling requires a fixed number of timesteps.\n"
                + errors.message("unroll=True for inputs of unknown length", "a known number of steps", "unroll=False")
            )
        count_more(4 * len(states) - 3 - 4 * known)  # TensorFlow takes the steps apart in one operation
        outputs: list[Any] = []
        for t in range(known):
            output, new = step([x[t] for x in flat], states)
            if mask is not None:
                output, new = masked(mask[t], output, outputs[-1] if outputs else None, new, states)
            outputs.append(output)
            states = new
        whole = tf.stack(outputs)
        last = outputs[-1]
    else:
        steps = tf.shape(flat[0])[0] if known is None else known
        arrays = [tf.TensorArray(x.dtype, steps).unstack(x) for x in flat]
        masks = None if mask is None else tf.TensorArray(tf.bool, steps).unstack(mask)
        # Arrays, sizes and masks of TensorFlow's loop.
        in_mask = (2 + 4 * len(states) + (known is not None)) * (mask is not None)
        count_more(4 * len(states) - 6 - 3 * (known is None) - in_mask)
        # What a step gives is known by a step that stands outside of the loop and is not run. It draws the masks of
        # dropout, too, which all steps of the loop use.
        sample, _ = step([x[0] for x in flat], states)
        results = tf.TensorArray(sample.dtype, steps)
        before = (tf.zeros_like(sample),) if mask is not None else ()

        def body(t: Any, results: Any, before: Any, states: Any) -> Any:
            output, new = step([array.read(t) for array in arrays], states)
            for x, old in zip(new, states, strict=True):
                x.set_shape(old.shape)
            if masks is not None:
                output, new = masked(masks.read(t), output, before[0], new, states)
                before = (output,)
            return t + 1, results.write(t, output), before, tuple(new)

        _, results, _, final = tf.while_loop(
            lambda t, *_: t < steps, body, (tf.constant(0), results, before, tuple(states)), swap_memory=True
        )
        states = list(final)
        whole = results.stack()
        whole.set_shape([known, *K.int_shape(sample)])
        last = whole[-1]
    return last, whole if time_major else swapped(whole), states


def local_conv(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any, data_format: Any) -> Any:
    """Convolution whose kernel differs from place to place: ``kernel`` is ``[places, window * channels, filters]``."""
    form = data_format_of(data_format)
    x = channels_last(inputs, form)
    rank = K.ndim(x) - 2
    size, step = pair(kernel_size, rank), pair(strides, rank)
    channels = K.int_shape(x)[-1]
    pieces = []
    shape = tuple(output_shape)
    for place in range(int(_product(shape))):
        start, rest = [], place
        for length in reversed(shape):
            start.append(rest % length)
            rest //= length
        window = tuple(slice(a * s, a * s + k) for a, s, k in zip(reversed(start), step, size, strict=True))
        piece = x[(slice(None), *window)]
        if form == "channels_first":
            piece = tf.transpose(piece, [0, rank + 1, *range(1, rank + 1)])
        pieces.append(tf.reshape(piece, [1, -1, int(_product(size)) * channels]))
    product = tf.matmul(tf.concat(pieces, 0), kernel)
    filters = K.int_shape(kernel)[-1]
    y = tf.transpose(product, [1, 0, 2])
    return channels_back(tf.reshape(y, [-1, *shape, filters]), form)


def local_conv1d(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, data_format: Any = None) -> Any:
    """Convolution along time whose kernel differs from place to place."""
    return local_conv(inputs, kernel, kernel_size, strides, (K.int_shape(kernel)[0],), data_format)


def local_conv2d(
    inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any, data_format: Any = None
) -> Any:
    """Convolution of images whose kernel differs from place to place."""
    return local_conv(inputs, kernel, kernel_size, strides, output_shape, data_format)


def _product(sizes: Any) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
