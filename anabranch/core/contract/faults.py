"""Whose fault it is when a kernel raises: the program's, the machine's, or ours.

Policy. A kernel may count on what the shape rule of its op accepts: ranks, and sizes that agree. The rule is asked
again with the shapes that operands really have, before the kernel runs, in both tiers. Whatever else can be wrong with
data a kernel says by ``ctx.check``. So what escapes from a kernel all the same is

- an :class:`~anabranch.core.errors.OpError`: said on purpose;
- `MemoryError`, and NumPy's word for sizes that no memory has: `ResourceExhaustedError`;
- another `ValueError` of a host kernel: NumPy refuses a value, which is `InvalidArgumentError`;
- `OSError`: by the table of :mod:`anabranch.core.file_errors`;
- `NotImplementedError`: XLA or a library lacks it, which is `UnimplementedError`;
- anything else: a bug of ours. On the host it is `InternalError`. While a kernel is traced it is :class:`KernelBug`:
  the op is interpreted, and if that succeeds, a :class:`~anabranch.core.errors.KernelBugWarning` says so, once for each
  op type. Tests turn the warning into an error.

What Python functions of the user's raise never comes here: the ops that call them make errors of it.
"""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors, file_errors, sites
from anabranch.core.contract import inference
from anabranch.core.values import shapes, sizes

BUGS = (
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    NameError,
    RecursionError,
    BufferError,
    EOFError,
)
"""What nobody raises on purpose in a kernel."""
FAULTS = (*BUGS, ValueError, MemoryError)
"""What may escape from a kernel that is traced, besides what was raised on purpose."""
_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded", "Maximum allowed size exceeded")
"""What NumPy's `ValueError` says of sizes that are beyond all memory."""


class KernelBug(Exception):
    """Tracing ``op`` (None: not known) met a bug of ours; ``text`` says which."""

    def __init__(self, op: Any, cause: BaseException):
        self.op = op
        self.text = _told(cause)
        super().__init__(self.text)


def _told(problem: BaseException) -> str:
    """What was raised, and the line of ours that it came from."""
    place = None
    for frame, line in traceback.walk_tb(problem.__traceback__):
        if sites.is_internal(frame.f_code):
            place = frame.f_code.co_filename, line
    text = f"{type(problem).__name__}: {problem}".partition("\n")[0]
    if place is None:
        return text
    return f"{text} ({'/'.join(place[0].replace(os.sep, '/').split('/')[-4:])}:{place[1]})"


_warned: set[str] = set()
_lock = threading.Lock()


def warn(bug: KernelBug, compiled: str = "compiled") -> None:
    """Says that an op whose ``compiled`` form has a bug was interpreted with success; once for each op type."""
    op = bug.op
    kind = "" if op is None else op.type
    with _lock:
        if kind in _warned:
            return
        _warned.add(kind)
    what = "a program" if op is None else f"{op.type} {op.name!r}"
    text = errors.message(
        f"{what}, whose {compiled} form has a bug of Anabranch's: {bug.text}",
        "no exception while a kernel is traced",
        "nothing in your program: its results are right, as the op is interpreted, but slow. Please report this text",
        at=getattr(op, "user_site", None),
    )
    warning = errors.KernelBugWarning(text)
    warning.__cause__ = bug.__cause__  # where it is turned into an error, the traceback shows the bug
    warnings.warn(warning)


def refusal(op: Any, context: inference.ShapeContext) -> errors.OpError | None:
    """What the shape rule of ``op`` says of shapes, and of values as far as they are known; None if it accepts them."""
    try:
        inference.infer(op.definition, context, len(op._outputs))
    except errors.OpError as problem:
        return problem
    except (ValueError, TypeError) as problem:
        return errors.InvalidArgumentError(None, op, f"{op.type} {op.name!r} cannot run: {problem}")
    return None


def results(op: Any, context: inference.ShapeContext) -> list[sizes.Spec]:
    """Shapes and dtypes of an op's results, as far as its shape rule knows them."""
    try:
        inferred = inference.infer(op.definition, context, len(op._outputs))
    except (errors.OpError, ValueError, TypeError):
        return []
    pairs = zip(inferred, op._outputs, strict=False)
    return [(shape, output.dtype.base.np) for shape, output in pairs if shapes.is_static(shape)]  # type: ignore[misc]


def too_large(op: Any, specs: Sequence[sizes.Spec], problem: object = "") -> errors.ResourceExhaustedError:
    """The error for an op whose results, of these shapes and dtypes, cannot be held."""
    impossible = any(sizes.extent(*spec) >= sizes.MOST_BYTES for spec in specs)
    shown = sizes.shown(specs) or problem or "a size that is not known"
    limit = sizes.MOST_BYTES if impossible else sizes.host_memory()
    return sizes.exhausted(op, f"{op.type} {op.name!r} with a result of {shown}", limit)


def host_error(
    op: Any, operands: Sequence[Any], problem: Exception, context: inference.ShapeContext | None = None
) -> errors.OpError:
    """The error for what a host kernel has raised that is not an :class:`~anabranch.core.errors.OpError`.

    Args:
        op: the op.
        operands: what its kernel was called with.
        problem: what was raised.
        context: shapes of the operands, and values as far as they are known.
    """
    if isinstance(problem, MemoryError) or (isinstance(problem, ValueError) and str(problem).startswith(_TOO_LARGE)):
        return too_large(op, results(op, context) if context is not None else [], problem)
    if isinstance(problem, OSError):
        return file_errors.error_of(problem, f"{op.type} {op.name!r}", op)
    text = f"{op.type} {op.name!r} cannot run on inputs of {described(operands)}: {problem}"
    if isinstance(problem, ValueError):
        return errors.InvalidArgumentError(None, op, text)
    if isinstance(problem, NotImplementedError):
        return errors.UnimplementedError(None, op, text)
    return errors.InternalError(
        None,
        op,
        errors.message(
            f"{_told(problem)}, from the kernel of {op.type} {op.name!r} on inputs of {described(operands)}",
            "a result, or an error that says what is wrong with the inputs",
            "check these inputs; whatever they are, this is a bug of Anabranch's: please report it",
        ),
    )


def as_built(op: Any, operands: Sequence[Any]) -> bool:
    """Whether operands have the shapes that the op's shape rule has accepted when the op was built, for running."""
    if op.definition.stricter_when_run:
        return False
    for tensor, value in zip(op._inputs, operands, strict=False):
        shape = tensor._shape
        if shape is None or None in shape or shape != getattr(value, "shape", None):
            return False
    return True


def described(operands: Sequence[Any]) -> str:
    """Dtypes and shapes of operands."""
    return (
        ", ".join(
            f"{value.dtype} {shapes.show(np.shape(value))}" if hasattr(value, "dtype") else type(value).__name__
            for value in operands
            if value is not None
        )
        or "none"
    )
