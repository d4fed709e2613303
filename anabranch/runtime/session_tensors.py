"""Handles of tensors that a session keeps: what a run gives for one, how it is read, fed and forgotten.

A fetched handle is a :class:`TensorHandle`. Its string goes into the placeholder of :func:`get_session_tensor`, or the
object itself is fed in the place of any tensor and stands for the value. When the object is gone, so is the tensor,
with the next run of a handle's reader; :meth:`TensorHandle.get_raw_handle` keeps it until it is deleted.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import device, errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes
from anabranch.ops.array.sources import placeholder
from anabranch.ops.state import session_tensors


class TensorHandle:
    """A tensor that a session keeps; what a run gives for a tensor of :func:`get_session_handle`.

    Args:
        handle: the string that stands for it.
        dtype: its dtype.
        session: the session that keeps it.
    """

    def __init__(self, handle: str | bytes, dtype: Any, session: Any) -> None:
        self._handle = handle.decode("utf-8", "surrogateescape") if isinstance(handle, bytes) else handle
        self._dtype = dtypes.as_dtype(dtype)
        self._session = session
        self._auto_gc_enabled = True

    def __del__(self) -> None:
        if getattr(self, "_auto_gc_enabled", False):
            self._session._register_dead_handle(self._handle)

    def __str__(self) -> str:
        return self._handle

    def __repr__(self) -> str:
        return f"<TensorHandle {self._handle!r} of {self._dtype.name}>"

    @property
    def handle(self) -> str:
        """The string that stands for the tensor."""
        return self._handle

    def eval(self) -> Any:
        """The tensor's value; TypeError if it has been deleted, or is no longer this object's."""
        self._require_own()
        holder, value = _reader(self._session.graph, self._handle, self._dtype)
        return self._session.run(value, {holder: self._handle})

    def delete(self) -> None:
        """Let the session forget the tensor; TypeError if it has been deleted, or is no longer this object's."""
        self._require_own()
        self._auto_gc_enabled = False
        forget(self._session, [self._handle])

    def get_raw_handle(self) -> str:
        """The string that stands for the tensor, which stays until it is deleted: no longer with this object."""
        self._auto_gc_enabled = False
        return self._handle

    def _require_own(self) -> None:
        if not self._auto_gc_enabled:
            raise TypeError(
                f"Persistent tensor {self._handle} may have already been deleted.\n"
                + errors.message(
                    "a handle that was deleted or given away as a string",
                    "one that still owns its tensor",
                    "tf.get_session_tensor(raw_handle, dtype)",
                )
            )


@public("get_session_handle")
def get_session_handle(data: Any, name: str | None = None) -> Any:
    """Keep a tensor in the session; what a run gives for it is a :class:`TensorHandle`.

    Raises:
        TypeError: ``data`` is not a tensor.

    >>> import anabranch as tf
    >>> with tf.Session() as session:
    ...     handle = session.run(tf.get_session_handle(tf.constant([1, 2])))
    ...     holder, x = tf.get_session_tensor(handle.handle, tf.int32)
    ...     print(session.run(x + 1, {holder: handle.handle}))
    [2 3]
    """
    if not isinstance(data, Tensor):
        raise TypeError(
            "`data` must be of type Tensor.\n"
            + errors.message(f"a {type(data).__name__}", "a tensor", "tf.get_session_handle(tf.convert_to_tensor(x))")
        )
    with current_builder().colocate_with(data.op):
        return build("GetSessionHandle", data, name=name)


@public("get_session_tensor")
def get_session_tensor(handle: str, dtype: Any, name: str | None = None) -> tuple[Any, Any]:
    """A placeholder for the string of a tensor that the session keeps, and the tensor.

    Args:
        handle: the string of one such tensor; says on which device it is read.
        dtype: its dtype.
        name: name of the operation.
    """
    with current_builder().device(_device(handle)):
        holder = placeholder(dtypes.string, ())
        return holder, build("GetSessionTensor", holder, dtype=dtypes.as_dtype(dtype), name=name)


@public("delete_session_tensor")
def delete_session_tensor(handle: str, name: str | None = None) -> tuple[Any, Operation]:
    """A placeholder for the string of a tensor that the session keeps, and an operation that forgets the tensor."""
    with current_builder().device(_device(handle)):
        holder = placeholder(dtypes.string, ())
        return holder, build("DeleteSessionTensor", holder, name=name)


def _device(handle: Any) -> str:
    return device.canonical_name(str(handle).rpartition(";")[2])


def _reader(graph: Graph, handle: str, dtype: Any) -> tuple[Any, Any]:
    """The placeholder and the tensor that read handles of a device and dtype; made once for each graph."""
    return _once(graph, "reader", handle, lambda: get_session_tensor(handle, dtype), dtype)


def _deleter(graph: Graph, handle: str) -> tuple[Any, Any]:
    return _once(graph, "deleter", handle, lambda: delete_session_tensor(handle), None)


def _once(graph: Graph, kind: str, handle: str, make: Any, dtype: Any) -> tuple[Any, Any]:
    known = graph._session_tensor_ops
    key = (kind, _device(handle), dtype)
    if key not in known:
        with graph.as_default(), current_builder().control_dependencies(None), current_builder().name_scope(None):
            known[key] = make()
    return known[key]


def forget(session: Any, handles: list[str]) -> None:
    """Let a session forget tensors by the strings that stand for them."""
    for handle in handles:
        holder, deleter = _deleter(session.graph, handle)
        session.run(deleter, {holder: handle})


def is_handle(tensor: Any) -> bool:
    """Whether a fetched tensor is the string of a tensor that the session keeps."""
    return isinstance(tensor, Tensor) and tensor.op.definition is session_tensors.GetSessionHandle.definition
