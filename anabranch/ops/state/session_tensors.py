"""Tensors that stay with a session under a string, from one run to the next."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import NotDifferentiable, Op, Type, channel

_NO_GRADIENT = NotDifferentiable("a session hands tensors from one step to another")


class SessionTensors:
    """Arrays by the strings that stand for them: ``name of the tensor;number;device``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._arrays: dict[str, np.ndarray] = {}

    def add(self, name: str, device: str, array: np.ndarray) -> str:
        """Keep an array; the string that stands for it."""
        with self._lock:
            handle = f"{name};{next(self._numbers)};{device}"
            self._arrays[handle] = array
        return handle

    def get(self, handle: str) -> np.ndarray | None:
        """The array behind a string; None if there is none."""
        return self._arrays.get(handle)

    def remove(self, handle: str) -> bool:
        """Forget an array; whether it was there."""
        with self._lock:
            return self._arrays.pop(handle, None) is not None

    def __len__(self) -> int:
        return len(self._arrays)


def _tensors(ctx: Any) -> SessionTensors:
    return ctx.shared("session tensors", SessionTensors, "session tensors")


def _text(handle: Any) -> str:
    value = np.asarray(handle).item()
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _missing(ctx: Any, handle: str) -> errors.OpError:
    return errors.InvalidArgumentError(
        None,
        ctx.op,
        f"The tensor with handle '{handle}' is not in the session store.\n"
        + errors.message(
            f"the handle {handle!r}",
            "one of a tensor that this session keeps",
            "session.run(tf.get_session_handle(x)).handle",
        ),
    )


class GetSessionHandle(Op):
    """Keep a tensor in the session; the string that stands for it, a scalar."""

    signature = "value: T -> handle: string"
    attrs = {"T": Type()}
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        return ()

    def host_kernel(ctx, inputs, attrs):
        kept = _tensors(ctx).add(ctx.op.inputs[0].op.name, ctx.op.device, np.array(inputs[0]))
        return np.array(kept.encode(), object)


class GetSessionTensor(Op):
    """The tensor that a session keeps under a string."""

    signature = "handle: string -> value: dtype"
    attrs = {"dtype": Type()}
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("handle", 0)
        return None

    def host_kernel(ctx, inputs, attrs):
        handle = _text(inputs[0])
        array = _tensors(ctx).get(handle)
        if array is None:
            raise _missing(ctx, handle)
        if array.dtype != attrs["dtype"].np:
            raise errors.InvalidArgumentError(
                None,
                ctx.op,
                errors.message(
                    f"{handle!r} of dtype {array.dtype} asked for as {attrs['dtype'].name}",
                    "the dtype of the tensor that was kept",
                    "tf.get_session_tensor(handle, dtype)",
                ),
            )
        return array


class DeleteSessionTensor(Op):
    """Let a session forget the tensor that it keeps under a string."""

    signature = "handle: string ->"
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("handle", 0)
        return []

    def host_kernel(ctx, inputs, attrs):
        handle = _text(inputs[0])
        if not _tensors(ctx).remove(handle):
            raise _missing(ctx, handle)
