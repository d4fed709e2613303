"""Exceptions: TensorFlow's classes and codes, and the one shape that every error text has.

Policy. An error says three things: what was given, what was expected, and what to write instead. `message` formats
them; nothing else in the package puts an error text together by hand. Errors about how a program is *written* (wrong
type, shape or name while a graph is built) are `TypeError` and `ValueError`, as in TensorFlow. Errors about how it
*runs* are the `OpError` classes below: they carry the operation that failed, and their text ends with the line of the
user's program that made it. A gradient operation shows the line of its forward operation too.

An `OpError` can be pickled, so that a task can send it to its client. A live operation holds its whole graph and does
not travel: what arrives is an `OpRecord` with its name, type, device and creation site as text.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "KernelBugWarning",
    "NotFoundError",
    "OpError",
    "OpRecord",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "error_code_from_exception_type",
    "exception_type_from_error_code",
    "make_exception",
    "message",
]

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


def message(given: object, expected: object, instead: object, *, at: object = None) -> str:
    """Return the text of an error in its three parts, and the user's line `at` (a `Site` or text) if known.

    Each part is a phrase without a label or a final line break; further lines of a part are indented under it.

    >>> print(message("a tensor of rank 1, shape [3]", "rank 2 or more", "tf.expand_dims(x, 0)"))
    Given: a tensor of rank 1, shape [3]
    Expected: rank 2 or more
    Instead: tf.expand_dims(x, 0)
    """
    parts = [
        f"{label}: {_indented(part)}"
        for label, part in (("Given", given), ("Expected", expected), ("Instead", instead))
    ]
    if at is not None and (where := str(at)):
        parts.append(f"At: {_indented(where)}")
    return "\n".join(parts)


def nested_too_deep(doing: str) -> str:
    """The text for functions, conditionals or loops inside each other that Python's stack is too small for."""
    return message(
        f"a graph to {doing} whose functions, conditionals or loops stand inside each other",
        f"fewer of them than Python's stack holds (sys.getrecursionlimit() = {sys.getrecursionlimit()})",
        "build it flatter, or sys.setrecursionlimit(...) before",
    )


def _indented(part: object) -> str:
    return str(part).strip("\n").replace("\n", "\n  ")


class OpRecord:
    """What is left of an operation in an error that was pickled: name, type, device and creation site as text."""

    __slots__ = ("device", "name", "original", "type", "user_site", "within")

    def __init__(
        self,
        name: str,
        type: str,
        device: str,
        user_site: str,
        original: OpRecord | None,
        within: OpRecord | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.device = device
        self.user_site = user_site
        self.original = original
        self.within = within

    @staticmethod
    def of(op: Any) -> OpRecord | None:
        """Return the record of an operation (or of a record), None for None."""
        if op is None or isinstance(op, OpRecord):
            return op
        return OpRecord(
            str(getattr(op, "name", op)),
            str(getattr(op, "type", "")),
            str(getattr(op, "device", "") or ""),
            _site_text(op),
            OpRecord.of(_original(op)),
            OpRecord.of(_within(op)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return OpRecord, (self.name, self.type, self.device, self.user_site, self.original, self.within)

    def __repr__(self) -> str:
        return f"<OpRecord {self.name!r} type={self.type}>"


def _site_text(op: Any) -> str:
    """Return where the user's program made the operation, or '' if that is not known."""
    for attribute in ("user_site", "site", "traceback"):
        site = getattr(op, attribute, None)
        if site is not None and (text := str(site)):
            return text
    return ""


def _called(op: Any) -> str:
    kind = getattr(op, "type", "")
    return f"{getattr(op, 'name', op)!r}{f' ({kind})' if kind else ''}"


def _original(op: Any) -> Any:
    """Return the operation on whose behalf this one was made (the forward operation of a gradient), or None."""
    return op.original if isinstance(op, OpRecord) else getattr(op, "_original_op", None)


def _within(op: Any) -> Any:
    """Return the conditional, loop or call in whose body the operation stands, or None."""
    return op.within if isinstance(op, OpRecord) else getattr(getattr(op, "body", None), "owner", None)


class OpError(Exception):
    """An operation failed while a session ran it."""

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int) -> None:
        """Create the error of `op` (an `Operation`, an `OpRecord` or None) and its `NodeDef` or None."""
        super().__init__(node_def, op, message, error_code)
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code

    @property
    def message(self) -> str:
        """The text of the error, without the place where the operation was made."""
        return self._message

    @property
    def op(self) -> Any:
        """The operation that failed, if known (an `OpRecord` after pickling)."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The `NodeDef` of the operation that failed, if known (it may be one the runtime made, such as a Send)."""
        return self._node_def

    @property
    def error_code(self) -> int:
        """The number of the error's class, as in TensorFlow's `error_codes.proto`."""
        return self._error_code

    def __str__(self) -> str:
        lines = [str(self._message)]
        op, intro = self._op, "Operation"
        seen: set[int] = set()
        while op is not None and id(op) not in seen:
            seen.add(id(op))
            if site := _site_text(op):
                lines.append(f"{intro} {_called(op)} was created at\n  {_indented(site)}")
            outer, site_text = _within(op), site
            while outer is not None:
                if (there := _site_text(outer)) and there != site_text:
                    lines.append(f"inside {_called(outer)}, created at\n  {_indented(there)}")
                outer, site_text = _within(outer), there
            op, intro = _original(op), "for operation"
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_op", "_node_def", "_message", "_error_code")}
        return _rebuild, (type(self), self._node_def, OpRecord.of(self._op), self._message, self._error_code), state


def _rebuild(cls: type[OpError], node_def: Any, op: OpRecord | None, text: str, code: int) -> OpError:
    """Make an unpickled error without calling its class, whose constructor a subclass may have changed."""
    error = cls.__new__(cls, node_def, op, text, code)
    OpError.__init__(error, node_def, op, text, code)
    return error


class CancelledError(OpError):
    """The step, or what it waited for, was cancelled (queue or session closed, `Coordinator` stopped)."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, CANCELLED)


class UnknownError(OpError):
    """An error whose class is not known, for example an exception in a Python function that an operation called."""

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int = UNKNOWN) -> None:
        super().__init__(node_def, op, message, error_code)


class InvalidArgumentError(OpError):
    """An operation received a value that is wrong whatever the state of the system (a shape, an index, a feed)."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, INVALID_ARGUMENT)


class DeadlineExceededError(OpError):
    """A step took longer than `RunOptions.timeout_in_ms` or `ConfigProto.operation_timeout_in_ms`."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, DEADLINE_EXCEEDED)


class NotFoundError(OpError):
    """A file, a table key, a tensor of a checkpoint or a named resource does not exist."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, NOT_FOUND)


class AlreadyExistsError(OpError):
    """What was to be created exists."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, ALREADY_EXISTS)


class PermissionDeniedError(OpError):
    """The caller may not do this, for example write a file."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, PERMISSION_DENIED)


class ResourceExhaustedError(OpError):
    """Memory, disk or a quota is used up."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, RESOURCE_EXHAUSTED)


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs: most often a variable was not initialised."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, FAILED_PRECONDITION)


class AbortedError(OpError):
    """The operation was given up, for example because its state was lost, and can be tried again from a checkpoint."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, ABORTED)


class OutOfRangeError(OpError):
    """The input has ended: a queue is closed and empty, a data set or reader is at its end."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, OUT_OF_RANGE)


class UnimplementedError(OpError):
    """The operation is known, but not for these types, attributes or this device."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNIMPLEMENTED)


class InternalError(OpError):
    """An invariant of the system does not hold: a fault of Anabranch, not of the program."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, INTERNAL)


class UnavailableError(OpError):
    """A task of the cluster cannot be reached now; trying again may help."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNAVAILABLE)


class DataLossError(OpError):
    """Data was lost or is corrupt, for example a record whose checksum does not match."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, DATA_LOSS)


class UnauthenticatedError(OpError):
    """The caller did not prove who it is."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNAUTHENTICATED)


class KernelBugWarning(RuntimeWarning):
    """A faster form of an operation has a bug of Anabranch's; results are right, as the operation was interpreted.

    It comes once for each op type in a process. Please report it. `warnings.simplefilter("error",
    tf.errors.KernelBugWarning)` makes the step fail instead.
    """


_CODE_TO_CLASS: dict[int, type[OpError]] = {
    CANCELLED: CancelledError,
    UNKNOWN: UnknownError,
    INVALID_ARGUMENT: InvalidArgumentError,
    DEADLINE_EXCEEDED: DeadlineExceededError,
    NOT_FOUND: NotFoundError,
    ALREADY_EXISTS: AlreadyExistsError,
    PERMISSION_DENIED: PermissionDeniedError,
    RESOURCE_EXHAUSTED: ResourceExhaustedError,
    FAILED_PRECONDITION: FailedPreconditionError,
    ABORTED: AbortedError,
    OUT_OF_RANGE: OutOfRangeError,
    UNIMPLEMENTED: UnimplementedError,
    INTERNAL: InternalError,
    UNAVAILABLE: UnavailableError,
    DATA_LOSS: DataLossError,
    UNAUTHENTICATED: UnauthenticatedError,
}
_CLASS_TO_CODE = {cls: code for code, cls in _CODE_TO_CLASS.items()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Return the exception class of a code; KeyError if there is none."""
    return _CODE_TO_CLASS[error_code]


def error_code_from_exception_type(cls: type[BaseException]) -> int:
    """Return the code of one of the exception classes; KeyError if it is none."""
    return _CLASS_TO_CODE[cls]  # type: ignore[index]


def make_exception(node_def: Any, op: Any, message: str, error_code: int) -> OpError:
    """Return an error of the class that the code names, `UnknownError` with that code for a code without a class."""
    cls: Any = _CODE_TO_CLASS.get(error_code)
    return cls(node_def, op, message) if cls is not None else UnknownError(node_def, op, message, error_code)
