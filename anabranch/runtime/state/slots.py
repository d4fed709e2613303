"""What a :class:`~anabranch.runtime.state.resources.ResourceManager` owns and what segments hold of it.

A handle says which resource is meant. A variable is a :class:`Slot` with one immutable :class:`Version`; a random op
has a :class:`RandomCounter`; a :class:`Layout` tells whether what somebody has looked up is still there as it was; a
:class:`Claim` names the variables that a running segment reads and writes. The rules that connect them are the
manager's.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import numpy as np

from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation
from anabranch.core.values import dtypes
from anabranch.core.values.dtypes import DType
from anabranch.placement.devices import LOCAL_TASK
from anabranch.xla import engine

DEFAULT_CONTAINER = "localhost"
"""The name of the container of resources that were made in no ``tf.container``, as TensorFlow calls it."""


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceHandle:
    """The value of a handle tensor: what it points to.

    Inside of a task, kind, container and name tell which resource is meant; ``device`` says where it is, the task
    included.
    """

    kind: str
    container: str
    name: str
    device: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        """Keep names as text: attributes that are not UTF-8 are bytes, which no string handle could join."""
        for key in ("container", "name"):
            if isinstance(value := getattr(self, key), bytes):
                object.__setattr__(self, key, value.decode("utf-8", "backslashreplace"))

    @property
    def task(self) -> str:
        """The task that owns the resource, such as ``/job:ps/replica:0/task:1``; '' if none is named."""
        return self.device.partition("/device:")[0]


def handle_of(maker: Operation, task: str = LOCAL_TASK, session: str = "") -> ResourceHandle:
    """The resource of a task that an op which makes handles names, or the stream of a random op.

    Args:
        maker: the op.
        task: the name of the task.
        session: what names of resources begin with that no other session of the task shares.
    """
    attrs, definition = maker._attrs, maker.definition
    name = attrs.get("shared_name", "")
    if not name:
        private = definition.private or definition.makes is None
        name = session + maker.name if private else maker.name
    return ResourceHandle(
        definition.makes or definition.effect.kind,
        attrs.get("container", "") or "",
        name,
        device_names.merge_names(task, maker._device),
    )


OFTEN_CALLED = 16
"""Calls with an array of the host after which it becomes one of JAX's: that costs as much as some thirty calls save."""


class Version:
    """One immutable value of a variable: a NumPy array or a device array.

    A training step makes one for each variable, most of which are never looked at: what most of them never have is
    the class's.
    """

    exposed = False
    """Whether somebody has been given the value to keep: then it is not written to, though the version ends."""
    pins = 0
    taken = False
    """Its buffer was given to a running program; a newer version is about to be published."""
    _elsewhere: dict[Any, Any] | None = None
    _host: np.ndarray | None = None
    _calls = 0
    _passed: Any = None
    """What programs are called with, once that has been found out."""

    def __init__(self, value: Any):
        self.unexposed = value
        """The value, for who does not keep it: looks at its shape, or at the rest while the version is pinned."""

    @property
    def value(self) -> Any:
        """The value, for anybody."""
        self.exposed = True
        return self.unexposed

    def host(self) -> np.ndarray:
        """The value as a NumPy array that must not be written to. Kept, so that many host reads copy once."""
        if isinstance(self.value, np.ndarray):
            return self.value
        if self._host is None:
            array = np.array(self.value)  # a copy: a view would keep XLA from reusing the buffer later
            array.flags.writeable = False
            self._host = array
        return self._host

    def for_program(self) -> Any:
        """The value as programs on the default device take it, which is not copied at each call.

        Only for the call of a program that is waited for while the version is held: it keeps nothing of its arguments.
        """
        passed = self._passed
        if passed is not None:
            return passed
        value = self.unexposed
        if not isinstance(value, np.ndarray):
            self._passed = value
            return value
        if not self._calls:
            value = self.unexposed = engine.kept(value)
        self._calls += 1
        if self._calls == OFTEN_CALLED:
            self._passed = engine.as_argument(value)
        return value

    def on(self, device: Any) -> Any:
        """The value on a placed device (None: the default one). A copy is kept as long as the version: one transfer
        serves all steps that read it there.
        """
        if self._elsewhere is not None and device in self._elsewhere:
            return self._elsewhere[device]
        self.exposed = True
        value = engine.moved([self.for_program() if device is None else self.value], device)[0]
        if value is not self.value:
            if self._elsewhere is None:
                self._elsewhere = {}
            self._elsewhere[device] = value
        return value


class Layout:
    """Which resources somebody has looked up, and that they are there with the shapes that they had then."""

    __slots__ = ("__weakref__", "holds")

    def __init__(self) -> None:
        self.holds = True


class _Watched:
    """A resource that ends the layouts which it is part of."""

    __slots__ = ("_layouts",)

    def __init__(self) -> None:
        self._layouts: weakref.WeakSet[Layout] | None = None

    def join(self, layout: Layout | None) -> None:
        """Becomes part of a layout; the manager's lock is held."""
        if layout is not None:
            if self._layouts is None:
                self._layouts = weakref.WeakSet()
            self._layouts.add(layout)

    def end_layouts(self) -> None:
        """Says that it is not what it was; the manager's lock is held."""
        layouts, self._layouts = self._layouts, None
        for layout in layouts or ():
            layout.holds = False


class Slot(_Watched):
    """A variable of a resource manager."""

    __slots__ = ("dtype", "handle", "lost", "shape", "version")

    def __init__(self, handle: ResourceHandle, dtype: DType, shape: tuple[int | None, ...] | None):
        super().__init__()
        self.handle = handle
        self.dtype = dtype
        self.shape = shape
        """Declared shape (partly known)."""
        self.version: Version | None = None
        self.lost = False

    @property
    def name(self) -> str:
        return self.handle.name

    def current(self, op: Any = None) -> Version:
        """The committed version; FailedPreconditionError if there is none, AbortedError if it was lost."""
        if self.version is None:
            if self.lost:
                raise errors.AbortedError(
                    None,
                    op,
                    errors.message(
                        f"a read of variable {self.name!r}, whose buffer was lost when a step that owned it "
                        "failed in the device",
                        "a variable with a value",
                        "restore it (saver.restore(session, path)) or run its initializer; "
                        "SessionOptions(recoverable=True) keeps a copy at the price of memory",
                    ),
                )
            usual = f"Attempting to use uninitialized value {self.name}\n"
            if any(tensor.dtype == dtypes.resource for tensor in getattr(op, "inputs", ())):
                container = self.handle.container or DEFAULT_CONTAINER
                usual += (
                    f"Error while reading resource variable {self.name} from Container: {container}. This could mean "
                    f"that the variable was uninitialized. Not found: Resource {container}/{self.name}/"
                    "N10tensorflow3VarE does not exist.\n"
                )
            raise errors.FailedPreconditionError(
                None,
                op,
                usual
                + errors.message(
                    f"a read of variable {self.name!r} before it has a value",
                    "an initialised variable",
                    "session.run(tf.global_variables_initializer()) or restore a checkpoint first",
                ),
            )
        return self.version


class Claim:
    """The variables that a running segment holds: ``reads`` shared, ``writes`` exclusively."""

    __slots__ = ("holder", "reads", "token", "writes")

    def __init__(self, reads: frozenset[Any], writes: frozenset[Any], holder: Any = None):
        self.reads = reads
        self.writes = writes
        self.token: CancellationToken | None = None
        """That of the step."""
        self.holder = holder
        """The transaction over several tasks that it belongs to, or None."""

    def conflicts(self, other: Claim) -> bool:
        if self.holder is not None and self.holder is other.holder:
            return False
        return not (
            self.writes.isdisjoint(other.writes)
            and self.writes.isdisjoint(other.reads)
            and self.reads.isdisjoint(other.writes)
        )


class RandomCounter(_Watched):
    """Key and position of one random op's Philox stream."""

    __slots__ = ("key", "position")

    def __init__(self, key: int, position: int):
        super().__init__()
        self.key = key
        self.position = position

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """``(key, counter)`` as uint32[2] and uint32[4], little end first."""
        key = np.array([self.key & 0xFFFFFFFF, self.key >> 32], np.uint32)
        return key, np.array([(self.position >> shift) & 0xFFFFFFFF for shift in (0, 32, 64, 96)], np.uint32)
