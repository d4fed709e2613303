"""``tf.signal``: Fourier and cosine transforms, frames, windows, short-time transforms, mel scales.

Policy. Everything is built from ops, so that gradients and the compiler see it. Sizes that are Python ints stay ints,
so that static shapes are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.array.dense_rows import dense_rows

_NAMES = {1: "", 2: "2D", 3: "3D"}


def _everywhere(name: str, function: Any, *more: str) -> None:
    for full in (f"signal.{name}", f"spectral.{name}", *more):
        publish_as(full, function)


# ---------------------------------------------------------------------------------------------------------- transforms
def _complex_function(kind: str, rank: int) -> Callable[..., Tensor]:
    def transform(input: Any, name: str | None = None) -> Tensor:
        return build(kind + _NAMES[rank], convert_to_tensor(input), name=name)

    transform.__name__ = (kind + _NAMES[rank]).lower()
    transform.__doc__ = (
        f"The op {kind + _NAMES[rank]}: complex64 or complex128 of any shape with {rank} dimensions or more."
    )
    return transform


def _known(value: Any) -> int | None:
    """A size as an int if it is known."""
    if isinstance(value, Tensor):
        array = partial_value(value)
        return int(array) if isinstance(array, np.ndarray) and array.size == 1 else None
    return int(value)


def _fft_length(x: Tensor, given: Any, rank: int, doubled: bool) -> tuple[Any, list[int | None]]:
    """The operand ``fft_length``, and what is known of it."""
    if given is None:
        raw = x.shape.raw
        if raw is not None and None not in raw[-rank:]:
            sizes = [int(size or 0) for size in raw[-rank:]]
            if doubled:
                sizes[-1] = max(2 * (sizes[-1] - 1), 0)
            return np.array(sizes, np.int32), list(sizes)
        own = build("Shape", x)[-rank:]
        if doubled:
            last = build("Maximum", build("Mul", 2, build("Sub", own[-1:], 1)), 0)
            own = build("ConcatV2", [own[:-1], last], 0)
        return own, [None] * rank
    if isinstance(given, (list, tuple)) and any(isinstance(item, Tensor) for item in given):
        given = build("Pack", [convert_to_tensor(item, dtypes.int32) for item in given], axis=0)
    length = convert_to_tensor(given, dtypes.int32, name="fft_length")
    length.shape.with_rank(1)
    array = partial_value(length)
    if isinstance(array, np.ndarray):
        return length, [int(item) for item in array.ravel()]
    return length, [None] * rank


def _padded(x: Tensor, length: Any, known: list[int | None], rank: int, halved: bool) -> Tensor:
    """``x`` with zeros behind the last dimensions where it is shorter than the transform."""
    raw = x.shape.raw
    if len(known) != rank:
        return x  # the op's to refuse
    if raw is not None and None not in raw[-rank:] and None not in known:
        wanted = [int(size or 0) for size in known]
        if halved:
            wanted[-1] = wanted[-1] // 2 + 1
        missing = [max(size - int(own or 0), 0) for size, own in zip(wanted, raw[-rank:], strict=True)]
        if not any(missing):
            return x
        return build("Pad", x, [[0, 0]] * (len(raw) - rank) + [[0, size] for size in missing])
    sizes = convert_to_tensor(length, dtypes.int32)
    if halved:
        sizes = build("ConcatV2", [sizes[:-1], build("AddV2", build("FloorDiv", sizes[-1:], 2), 1)], 0)
    own = build("Shape", x)
    behind = build("Maximum", build("Sub", sizes, own[-rank:]), 0)
    behind = build("ConcatV2", [build("ZerosLike", own[:-rank]), behind], 0)
    return build("Pad", x, build("Pack", [build("ZerosLike", behind), behind], axis=1))


def _real_function(rank: int) -> Callable[..., Tensor]:
    kind = "RFFT" + _NAMES[rank]

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with name_scope(name, kind.lower(), [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.float32)
            x.shape.with_rank_at_least(rank)
            length, known = _fft_length(x, fft_length, rank, False)
            x = _padded(x, length, known, rank, False)
            into = dtypes.complex128 if x.dtype.base == dtypes.float64 else dtypes.complex64
            return build(kind, x, length, Tcomplex=into, name=scope)

    transform.__name__ = kind.lower()
    transform.__doc__ = f"""The transform of a real signal over the last {rank} dimensions, without the conjugate half.

    Args:
        input_tensor: float32 or float64.
        fft_length: int32 ``[{rank}]``: to what size the signal is cut or padded; its own size by default.
        name: of the op.
    """
    return transform


def _inverse_real_function(rank: int) -> Callable[..., Tensor]:
    kind = "IRFFT" + _NAMES[rank]

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with name_scope(name, kind.lower(), [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
            x.shape.with_rank_at_least(rank)
            length, known = _fft_length(x, fft_length, rank, True)
            x = _padded(x, length, known, rank, True)
            return build(kind, x, length, Treal=x.dtype.base.real_dtype, name=scope)

    transform.__name__ = kind.lower()
    transform.__doc__ = f"""The real signal with this transform over the last {rank} dimensions.

    Args:
        input_tensor: complex64 or complex128.
        fft_length: int32 ``[{rank}]``: size of the signal; ``2 * (size - 1)`` in the last dimension by default.
        name: of the op.
    """
    return transform


rfft: Callable[..., Tensor] = _real_function(1)
irfft: Callable[..., Tensor] = _inverse_real_function(1)
for _rank in (1, 2, 3):
    for _kind in ("FFT", "IFFT"):
        _function = _complex_function(_kind, _rank)
        _everywhere(_function.__name__, _function, _function.__name__)
    _everywhere(f"rfft{_NAMES[_rank].lower()}", rfft if _rank == 1 else _real_function(_rank))
    _everywhere(f"irfft{_NAMES[_rank].lower()}", irfft if _rank == 1 else _inverse_real_function(_rank))


def _rolled(x: Any, axes: Any, forward: bool, name: str | None) -> Tensor:
    with name_scope(name, "fftshift" if forward else "ifftshift", [x]) as scope:
        x = convert_to_tensor(x)
        if axes is None:
            if x.shape.ndims is None:
                raise ValueError(
                    errors.message(
                        "a tensor of unknown rank and no axes", "a tensor of known rank, or axes", "axes=[-1]"
                    )
                )
            axes = list(range(x.shape.ndims))
        axes = [axes] if isinstance(axes, int) else list(axes)
        sizes = x.shape.raw if x.shape.raw is not None and None not in x.shape.raw else None
        if sizes is not None:
            shift: Any = np.array([int(sizes[axis] or 0) // 2 for axis in axes], np.int32)
        else:
            shift = build("FloorDiv", build("GatherV2", build("Shape", x), [a % x.shape.ndims for a in axes], 0), 2)
        shift = shift if forward else (-shift if isinstance(shift, np.ndarray) else build("Neg", shift))
        return build("Roll", x, shift, np.array(axes, np.int32), name=scope)


@public("signal.fftshift")
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The zero frequency moved to the middle of ``axes``, all of them by default."""
    return _rolled(x, axes, True, name)


@public("signal.ifftshift")
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The inverse of ``tf.signal.fftshift``."""
    return _rolled(x, axes, False, name)


# --------------------------------------------------------------------------------------------------- cosine transforms
def _size(x: Tensor) -> tuple[int | None, Any]:
    """The size of the last dimension: an int if it is known, and as something that ops take."""
    known = None if x.shape.raw is None else x.shape.raw[-1]
    return (known, known) if known is not None else (None, build("Shape", x)[-1])


def _turns(size: Any, kind: Any, sign: float) -> Tensor:
    """``exp(sign i pi k / (2 size))`` for each ``k`` below ``size``, complex."""
    steps = build("Cast", build("Range", 0, size, 1), DstT=kind)
    angle = build("RealDiv", build("Mul", steps, float(sign * math.pi / 2)), _as(size, kind))
    into = dtypes.complex128 if kind == dtypes.float64 else dtypes.complex64
    return build("Complex", build("Cos", angle), build("Sin", angle), Tout=into)


def _as(value: Any, kind: Any) -> Any:
    """A size as a number of the dtype."""
    return build("Cast", value, DstT=kind) if isinstance(value, Tensor) else np.array(value, kind.np)


def _first_differs(size: Any, first: Any, others: Any, kind: Any) -> Tensor:
    rest = build("Fill", build("ExpandDims", build("Sub", convert_to_tensor(size, dtypes.int32), 1), 0), others)
    head = build("Reshape", convert_to_tensor(first, kind), [1])
    return build("ConcatV2", [head, rest], 0)


@public("signal.dct", "spectral.dct")
def dct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The discrete cosine transform over the last dimension.

    Args:
        input: float32 or float64 ``[..., samples]``.
        type: 1, 2 or 3.
        n: the length that the signal is cut or padded to; its own by default.
        axis: -1.
        norm: None, or ``"ortho"`` for an orthogonal transform (types 2 and 3).
        name: of the ops.
    """
    _check_dct(type, n, axis, norm)
    with name_scope(name, "dct", [input]):
        x = convert_to_tensor(input, preferred_dtype=dtypes.float32)
        kind = x.dtype.base
        if n is not None:
            known, _ = _size(x)
            if known is not None and known >= n:
                x = x[..., :n]
            else:
                x = _padded(x, np.array([n], np.int32), [n], 1, False)[..., :n]
        known, size = _size(x)
        if type == 1:
            if known is not None and known < 2:
                raise ValueError(
                    "Type-I DCT requires the dimension to be greater than one.\n"
                    + errors.message(f"{known} samples", "at least 2 samples", "type=2")
                )
            mirrored = build("ConcatV2", [x, x[..., -2:0:-1]], -1)
            return build("Real", rfft(mirrored), Tout=kind)
        doubled = build("Mul", convert_to_tensor(size, dtypes.int32), 2)
        doubled = [2 * known] if known is not None else build("ExpandDims", doubled, 0)
        if type == 2:
            turned = build("Mul", rfft(x, doubled)[..., :size], _turns(size, kind, -1.0))
            transform = build("Mul", build("Real", turned, Tout=kind), 2.0)
            if norm is None:
                return transform
            first = build("Mul", build("Rsqrt", convert_to_tensor(_as(size, kind))), 0.5)
            return build("Mul", transform, _first_differs(size, first, build("Mul", first, math.sqrt(2.0)), kind))
        if norm is None:
            x = build("Mul", x, _as(size, kind))
        else:
            first = build("Sqrt", convert_to_tensor(_as(size, kind)))
            x = build("Mul", x, _first_differs(size, first, build("Mul", first, math.sqrt(0.5)), kind))
        into = dtypes.complex128 if kind == dtypes.float64 else dtypes.complex64
        turned = build("Mul", build("Cast", x, DstT=into), _turns(size, kind, 1.0))
        return build("Mul", irfft(turned, doubled)[..., :size], 2.0)


def _check_dct(type: int, n: int | None, axis: int, norm: str | None) -> None:
    if type not in (1, 2, 3):
        raise ValueError(
            "Only Types I, II and III (I)DCT are supported.\n" + errors.message(f"type={type}", "1, 2 or 3", "type=2")
        )
    if axis != -1:
        raise NotImplementedError(
            f"axis must be -1. Got: {axis}\n"
            + errors.message(
                f"axis={axis}", "the last axis: axis=-1", "tf.transpose(signal, ...) to bring the axis to the end"
            )
        )
    if n is not None and n < 1:
        raise ValueError(
            "n should be a positive integer or None\n" + errors.message(f"n={n}", "a length of 1 or more", "n=None")
        )
    if norm not in (None, "ortho"):
        raise ValueError(
            f"Unknown normalization. Expected None or 'ortho', got: {norm}\n"
            + errors.message(f"norm={norm!r}", "None or 'ortho'", "norm='ortho'")
        )
    if type == 1 and norm == "ortho":
        raise ValueError(
            "Normalization is not supported for the Type-I DCT.\n"
            + errors.message("type=1 and norm='ortho'", "norm=None", "norm=None")
        )


@public("signal.idct", "spectral.idct")
def idct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse of ``tf.signal.dct`` of the same type over the last dimension; without ``norm`` up to its scale.

    As in TensorFlow and ``scipy.fftpack``, what ``norm=None`` gives is the inverse times twice the number of samples
    (one less of type 1): types 2 and 3 are each other's inverse, type 1 is its own.

    Args:
        input: float ``[..., samples]``.
        type: 1, 2 or 3.
        n: length to cut the signal to, or to pad it to with zeros; None for its own.
        axis: -1.
        norm: None or ``"ortho"``, which is the very inverse of ``tf.signal.dct`` with that norm.
        name: name of the ops.

    Example:
        >>> x = tf.constant([1.0, 2.0, 3.0])
        >>> y = tf.signal.idct(tf.signal.dct(x)) / (2 * 3)  # 1, 2, 3
    """
    return dct(input, {1: 1, 2: 3, 3: 2}.get(type, type), n, axis, norm, name)


# ------------------------------------------------------------------------------------------------------------- windows
def _raised_cosine(
    length: Any, periodic: bool, dtype: Any, a: float, b: float, name: str | None, default: str
) -> Tensor:
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(errors.message(f"a window of {dtype.name}", "a floating dtype", "dtype=tf.float32"))
    with name_scope(name, default, [length]):
        known = _known(length)
        if known == 1:
            return build("Fill", [1], convert_to_tensor(1.0, dtype))
        length = convert_to_tensor(length, dtypes.int32)
        even = build("Sub", 1, build("FloorMod", length, 2))
        last = build("Cast", build("Sub", build("AddV2", length, even if periodic else 0), 1), DstT=dtype)
        steps = build("Cast", build("Range", 0, length, 1), DstT=dtype)
        # A window of one element divides by 0: it is 1.
        safe = build("Maximum", last, convert_to_tensor(1.0, dtype))
        angle = build("RealDiv", build("Mul", steps, float(2 * math.pi)), safe)
        window = build("Sub", convert_to_tensor(a, dtype), build("Mul", build("Cos", angle), b))
        if known is None:
            window = build("SelectV2", build("Equal", length, 1), build("OnesLike", window), window)
        return window


@public("signal.hann_window", "contrib.signal.hann_window")
def hann_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Hann's window ``0.5 - 0.5 cos(2 pi n / N)``, ``[window_length]``; ``periodic`` ones add up to a constant."""
    return _raised_cosine(window_length, periodic, dtype, 0.5, 0.5, name, "hann_window")


@public("signal.hamming_window", "contrib.signal.hamming_window")
def hamming_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Hamming's window ``0.54 - 0.46 cos(2 pi n / N)``, ``[window_length]``."""
    return _raised_cosine(window_length, periodic, dtype, 0.54, 0.46, name, "hamming_window")


@public("signal.kaiser_window")
def kaiser_window(
    window_length: Any, beta: float = 12.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Kaiser's window, ``[window_length]``: Bessel functions ``I0(beta sqrt(1 - x^2)) / I0(beta)`` on ``[-1, 1]``."""
    with name_scope(name, "kaiser_window"):
        real = dtypes.as_dtype(dtype)
        count = convert_to_tensor(window_length, dtypes.int32, name="window_length")
        places = build("Cast", build("Range", 0, count, 1), DstT=real)
        half = build("Mul", build("Cast", build("Maximum", build("Sub", count, 1), 1), DstT=real), 0.5)
        distance = build("Sub", build("RealDiv", places, half), build("Cast", build("Greater", count, 1), DstT=real))
        inside = build("Maximum", build("Sub", 1.0, build("Square", distance)), 0.0)
        steepness = convert_to_tensor(beta)
        steepness = steepness if steepness.dtype.base is real else build("Cast", steepness, DstT=real)
        wide = build("Mul", build("Sqrt", inside), steepness)
        return build("RealDiv", build("BesselI0", wide), build("BesselI0", steepness))


# -------------------------------------------------------------------------------------------------------------- frames
@public("signal.frame", "contrib.signal.frame")
def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Overlapping frames of a signal.

    Args:
        signal: ``[..., samples, ...]``.
        frame_length: samples in a frame.
        frame_step: samples from one frame to the next.
        pad_end: whether a frame begins at every step of the signal, with ``pad_value`` behind its end.
        pad_value: of the signal's dtype.
        axis: the dimension of the samples.
        name: of the ops.

    Returns:
        ``[..., frames, frame_length, ...]``.
    """
    with name_scope(name, "frame", [signal, frame_length, frame_step]):
        signal = convert_to_tensor(signal, name="signal")
        rank = signal.shape.ndims
        if rank is None:
            if axis != -1:
                raise ValueError(
                    errors.message(
                        f"axis={axis} of unknown rank", "a signal of known rank", "signal.set_shape([None, n])"
                    )
                )
            return _by_rows(
                signal, 1, 2, lambda rows: frame(rows, frame_length, frame_step, pad_end, pad_value, name=name)
            )
        if not -rank <= axis < rank:
            raise ValueError(errors.message(f"axis={axis} of rank {rank}", f"-{rank} to {rank - 1}", "axis=-1"))
        axis = axis % rank
        length, step = _known(frame_length), _known(frame_step)
        size = signal.shape.as_list()[axis]
        if length is None or step is None or size is None:
            length, step = (convert_to_tensor(item, dtypes.int32) for item in (frame_length, frame_step))
            size = build("Shape", signal)[axis]
            if pad_end:
                count = build("Maximum", build("FloorDiv", build("Sub", build("AddV2", size, step), 1), step), 0)
            else:
                whole = build("FloorDiv", build("AddV2", build("Sub", size, length), step), step)
                count = build("Maximum", whole, 0)
            missing = build("Maximum", build("Sub", _last_end(count, length, step), size), 0)
            starts = build("Mul", build("Range", 0, count, 1), step)
            inside = build("Range", 0, length, 1)
            places: Any = build("AddV2", build("ExpandDims", starts, 1), build("ExpandDims", inside, 0))
        else:
            count = -(-size // step) if pad_end else max((size - length + step) // step, 0)
            missing = max((count - 1) * step + length - size, 0) if count else 0
            places = np.arange(count, dtype=np.int32)[:, None] * step + np.arange(length, dtype=np.int32)
        if pad_end and (isinstance(missing, Tensor) or missing):
            paddings: Any = [[0, 0] for _ in range(rank)]
            paddings[axis] = [0, missing]
            if isinstance(missing, Tensor):
                flat = build("Pack", [convert_to_tensor(n, dtypes.int32) for pair in paddings for n in pair], axis=0)
                paddings = build("Reshape", flat, [rank, 2])
            sizes = signal.shape.as_list()
            sizes[axis] = None
            signal = build("PadV2", signal, paddings, convert_to_tensor(pad_value, signal.dtype.base))
            signal.set_shape(sizes)
        return dense_rows(signal, places, axis)


def _by_rows(signal: Tensor, taken: int, made: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the last ``taken`` dimensions of a signal of unknown rank, which makes ``made`` of them.

    The dimensions before are one for the function.
    """
    shape = build("Shape", signal)
    rows = build("Reshape", signal, build("ConcatV2", [[-1], shape[-taken:]], 0))
    rows.set_shape([None] * (taken + 1))
    result = function(rows)
    return build("Reshape", result, build("ConcatV2", [shape[:-taken], build("Shape", result)[-made:]], 0))


def _last_end(count: Any, length: Any, step: Any) -> Any:
    """Where the last frame ends; 0 if there is none."""
    end = build("AddV2", build("Mul", build("Sub", count, 1), step), length)
    return build("SelectV2", build("Greater", count, 0), end, 0)


@public("signal.overlap_and_add", "contrib.signal.overlap_and_add")
def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """The sum of frames, each ``frame_step`` samples after the one before.

    Args:
        signal: ``[..., frames, frame_length]``.
        frame_step: at most ``frame_length``.
        name: of the ops.

    Returns:
        ``[..., (frames - 1) * frame_step + frame_length]``.
    """
    with name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = convert_to_tensor(signal, name="signal")
        rank = signal.shape.ndims
        if rank is None:
            return _by_rows(signal, 2, 1, lambda frames: overlap_and_add(frames, frame_step, name))
        if rank < 2:
            raise ValueError(
                "signal must have at least rank 2.\n"
                + errors.message(
                    f"a signal of rank {rank}",
                    "a signal [..., frames, frame_length]",
                    "tf.signal.frame(signal, frame_length, frame_step)",
                )
            )
        raw = signal.shape.as_list()
        step = _known(frame_step)
        dynamic = build("Shape", signal)
        frames, length = (raw[-2 + i] if raw[-2 + i] is not None else dynamic[rank - 2 + i] for i in range(2))
        if step is None or isinstance(length, Tensor):
            step = convert_to_tensor(frame_step, dtypes.int32)
        # Every frame is cut into parts of a step: part p of frame f lands at place f + p.
        parts = _ceil_div(length, step)
        total = _sum(_product(_sum(frames, -1), step), length)
        rest = _sum(_product(parts, step), _product(length, -1))
        lead: list[Any] = [raw[i] if raw[i] is not None else dynamic[i] for i in range(rank - 2)]
        padded = build("Pad", signal, _packed([[0, 0]] * (rank - 1) + [[0, rest]]))
        cut = build("Reshape", padded, _packed([*lead, frames, parts, step]))
        order = [*range(rank - 2), rank - 1, rank - 2, rank]
        turned = build("Transpose", cut, order)
        shifted = build("Pad", turned, _packed([[0, 0]] * (rank - 1) + [[0, parts], [0, 0]]))
        flat = build("Reshape", shifted, _packed([*lead, _product(parts, _sum(frames, parts)), step]))
        kept = _product(parts, _sum(_sum(frames, parts), -1))
        skewed = build("Reshape", flat[..., :kept, :], _packed([*lead, parts, _sum(_sum(frames, parts), -1), step]))
        summed = build("Sum", skewed, [rank - 2])
        signal_out = build("Reshape", summed, _packed([*lead, _product(_sum(_sum(frames, parts), -1), step)]))
        return signal_out[..., :total]


def _packed(items: list[Any]) -> Any:
    """Sizes, or pairs of them, as an operand."""
    flat = [item for entry in items for item in (entry if isinstance(entry, list) else [entry])]
    if not any(isinstance(item, Tensor) for item in flat):
        return np.array(items, np.int32)
    packed = build("Pack", [convert_to_tensor(item, dtypes.int32) for item in flat], axis=0)
    return build("Reshape", packed, [-1, 2]) if isinstance(items[0], list) else packed


def _sum(a: Any, b: Any) -> Any:
    return build("AddV2", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a + b


def _product(a: Any, b: Any) -> Any:
    return build("Mul", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a * b


def _ceil_div(a: Any, b: Any) -> Any:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return build("FloorDiv", build("Sub", build("AddV2", a, b), 1), b)
    return -(-a // b)
