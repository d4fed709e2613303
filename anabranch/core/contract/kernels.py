"""What a kernel gets when it runs: the context of its tier.

A kernel is called as ``kernel(ctx, inputs, attrs)``. ``inputs`` is the flat list of input values in the order of the
signature; an operand named by the effect, or a ref edge, arrives as the variable's value; inputs named ``compile_time``
arrive as NumPy arrays in both tiers. It returns one array, or a sequence with one per output; a write returns the
new value of each resource it writes, in the effect's order, followed by its outputs that are not refs.

The same kernel serves both tiers where the array namespace allows it: ``ctx.xp`` is NumPy on the host and jax.numpy
under XLA, ``ctx.lax`` is None on the host. A kernel never raises for bad data: it calls :meth:`KernelContext.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.values.summarize import summarize as _summarize


class NotCompilable(Exception):
    """Raised by a kernel under XLA whose result has no shape that is known there: the plan runs the op on the host."""


class KernelContext:
    """What both tiers offer to a kernel. ``op`` is the operation (or an op-like view) that runs, for messages."""

    xp: Any = None
    lax: Any = None
    host = True
    platform = "cpu"
    op: Any = None
    philox: Any = None
    """Random ops only: uint32[2] key and uint32[4] counter of the first block reserved for this execution."""
    cancellation: Any = None
    """Channel and io kernels: the step's CancellationToken; a kernel that waits must wait through it."""
    precision: Any = None
    """Matmul and convolution precision (None: the platform's default), for ``lax.dot_general(..., precision=)``."""
    distinct_rows = False
    """Writes of rows only: whether the indices of the rows are known to differ from each other."""
    vjp: Any = None
    """Compiled tier: ``vjp(f, *operands)`` gives the outputs of ``f(ctx, *operands)`` and their pullback."""

    def convolve(self, kind: str, a: Any, b: Any, axes: Any, groups: int, channels_first: bool) -> Any:
        """A convolution or a gradient of one by a library of the tier; None where the kernel is to compute it.

        ``kind`` is ``"forward"`` (``a`` images, ``b`` filter), ``"input gradient"`` (output gradient, filter) or
        ``"filter gradient"`` (images, output gradient); ``axes`` has an entry for each spatial dimension.
        """
        return None

    def check(self, ok: Any, error: type[errors.OpError], text: str, *payload: Any, summarize: int = 1) -> None:
        """Fail the step with ``error`` unless the scalar bool ``ok`` holds.

        ``text`` is a format string for ``payload`` (``{0}``, ``{1}``): scalars, or arrays of which the first
        ``summarize`` elements are shown. On the host the failure is raised at once; under XLA it becomes a
        flag of the program that is read before the step commits.
        """
        raise NotImplementedError

    def stored(self, new: Any, old: Any) -> Any:
        """What a write of the kernel leaves in a variable that held ``old``: for the kernel to return, and to compute
        from it what else it writes.
        """
        return new

    def once(self, function: Callable[..., Any], fixed: tuple[Any, ...], *arrays: Any) -> Any:
        """``function(xp, *fixed, *arrays)``, which a compiler reads once for all calls that are alike.

        Args:
            function: a function of a module, which computes and does nothing else.
            fixed: hashable values by which calls are told apart.
            *arrays: arrays and numbers, or tuples and lists of them.
        """
        return function(self.xp, *fixed, *arrays)

    def apart(self, value: Any) -> Any:
        """``value``, computed once: a compiler would compute it again in each op that takes it, to save memory."""
        return value

    def known(self, position: int) -> Any:
        """What the plan knows of a traced input: a tuple with None in the unknown places, or None if nothing."""
        return None

    def resource(self, handle: Any) -> Any:
        """The live object (queue, table, reader) behind a handle value. Host kernels only."""
        raise NotImplementedError

    def shared(self, kind: str, create: Callable[[], Any], name: str | None = None) -> Any:
        """The live object of an op that has no handle: that of its container and ``shared_name``, or of its own name.

        It is made on first use; ops that give a ``name`` share the one of that name. Host kernels of channel ops only.
        """
        raise NotImplementedError

    def handle(self, kind: str, container: str, name: str, device: str) -> Any:
        """The handle value of a resource that is named by its parts."""
        raise NotImplementedError

    @property
    def functions(self) -> Any:
        """What calls the functions that an op holds, now and after the step; see :class:`Functions`."""
        raise NotImplementedError

    def release(self, handle: Any, ignore_missing: bool) -> None:
        """Remove the resource behind a handle value; NotFoundError if there is none, unless ``ignore_missing``."""
        raise NotImplementedError


class PreparedFunction(Protocol):
    """A function with the values that it captures."""

    def __call__(self, operands: Sequence[Any], token: Any, /) -> list[Any]:
        """A value for each output; called with the values of the other arguments and a CancellationToken."""

    def rows(self, columns: Sequence[Any], token: Any, /) -> list[Any] | None:
        """The outputs for many elements in one run, all as arrays with a row for each; None if it has no such form."""

    @property
    def alike_in_parallel(self) -> bool:
        """Whether calls on several threads at a time give what calls one after the other do."""

    @property
    def repeats(self) -> bool:
        """Whether it belongs to a session that is to repeat, so that Python is called in one order."""

    @property
    def reserves(self) -> bool:
        """Whether it draws, and the place of each call in the streams is known before the call."""

    def reserved(self, count: int = 1) -> Callable[[Sequence[Any], Any], list[Any]]:
        """The function for one call on any thread, or :meth:`outcomes` for ``count``, whose place in the streams is the
        next one.
        """

    @property
    def takes_several(self) -> bool:
        """Whether there is something to gain from calls for several elements at a time."""

    def outcomes(self, rows: Sequence[Sequence[Any]], token: Any, /) -> list[Any]:
        """What calls for several elements give, one after the other: tuples of values, or what they raise."""

    @property
    def by_element(self) -> str | None:
        """Why it has no such form, if that is known."""


class LiveValue:
    """A captured value that is read from the variable of ``maker`` for each call of the function that captures it.

    ``value`` is what the variable held when it was captured.
    """

    __slots__ = ("maker", "value")

    def __init__(self, maker: Any, value: Any) -> None:
        self.maker = maker
        self.value = value


class Functions:
    """Call functions (attributes ``Func(captures=...)``) for kernels, and for the objects that these make.

    A call is outside the step's transaction: what the function reads of variables and tables is what is committed
    when it is called, and what it writes is committed when it returns.
    """

    def prepare(self, body: Any, captured: Sequence[Any]) -> PreparedFunction:
        """The function of ``body`` with the values that it captures, some of which may be a :class:`LiveValue`."""
        raise NotImplementedError

    def committed(self, maker: Any) -> Any:
        """The committed value of the variable that an op makes; None if there is none here."""
        raise NotImplementedError

    def with_own_streams(self) -> Functions:
        """The same, whose random ops begin anew with it and are not those of the session."""
        raise NotImplementedError

    def save_streams(self) -> dict[str, Any]:
        """Where the random ops of :meth:`with_own_streams` stand."""
        raise NotImplementedError

    def restore_streams(self, places: dict[str, Any]) -> None:
        """Go to saved places."""
        raise NotImplementedError


def check_text(text: str, payload: Sequence[Any], summarize: int = 1, name: str = "") -> str:
    """The text of a failed check with its payload; one that has the program's own braces in it, as it stands."""
    try:
        return text.format(*show_payload(payload, summarize), name=name)
    except (LookupError, ValueError, AttributeError):
        return text


def show_payload(values: Sequence[Any], summarize: int = 1) -> list[str]:
    """Texts for the placeholders of a check's message: scalars, and arrays in brackets."""
    shown = []
    for value in values:
        text = _summarize(value, summarize if np.ndim(value) else -1)
        shown.append(f"[{text}]" if np.ndim(value) else text)
    return shown


def of_kind(ctx: KernelContext, thing: Any, kind: type, what: str) -> Any:
    """The object behind a handle, which must be of a class; ``what`` that is, with its article."""
    if not isinstance(thing, kind):
        text = errors.message(
            f"a handle of {type(thing).__name__}", f"a handle of {what}", f"pass what makes {what} to this operation"
        )
        raise errors.InvalidArgumentError(None, ctx.op, text)
    return thing


class HostContext(KernelContext):
    """The interpreted tier: NumPy, checks raise at once."""

    xp = np
    _manager: Any = None
    pieces: list[tuple[Any, float, float, str]] | None = None
    """Where a kernel notes pieces of what it did, if the step's caller wants to know: an op, when it began and ended in
    seconds since the epoch, and a text.
    """

    def __init__(self, op: Any = None, resources: Callable[[Any], Any] | None = None) -> None:
        self.op = op
        self._resources = resources

    def check(self, ok: Any, error: type[errors.OpError], text: str, *payload: Any, summarize: int = 1) -> None:
        if not ok:
            make: Callable[..., errors.OpError] = error  # subclasses know their error code
            raise make(
                getattr(self.op, "node_def_or_none", None),
                self.op,
                check_text(text, payload, summarize, getattr(self.op, "name", "")),
            )

    def written(self, array: Any, rows: Any, old: Any = None) -> np.ndarray:
        """The array whose ``rows`` (an index) a kernel is to write to: a copy, or ``array`` itself if that may be.

        ``old`` are copies of these rows, if the kernel has made them.
        """
        return np.array(array)

    @property
    def manager(self) -> Any:
        """The session's resources, which state that an op keeps for itself lives as long as; None outside a step."""
        return self._manager

    def convolve(self, kind: str, a: Any, b: Any, axes: Any, groups: int, channels_first: bool) -> Any:
        return hooks.convolve_on_host(kind, a, b, axes, groups, channels_first)

    def pool(self, kind: str, shape: Any, axes: Any, *operands: Any) -> Any:
        """A pooling of images by a library: an array, or None where the kernel is to compute it itself.

        ``kind`` is ``maximum`` or ``average``, of images, or one of these with `` gradient``: of the images (maxima
        only) and the gradient of the result.
        """
        return hooks.pool_on_host(kind, tuple(shape), axes, *operands)

    def resource(self, handle: Any) -> Any:
        if self._resources is None:
            raise errors.InternalError(None, self.op, f"no resource manager to resolve {handle!r}")
        return self._resources(handle)


def outputs_of(definition: OpDefinition, attrs: dict[str, Any], result: Any) -> list[Any]:
    """A kernel's result as a list with one value per output."""
    if result is None:
        return []
    if isinstance(result, (tuple, list)):
        return list(result)
    return [result]


def run_on_host(definition: OpDefinition, inputs: Sequence[Any], attrs: dict[str, Any], ctx: HostContext) -> list[Any]:
    """Run the host kernel (or the portable kernel on NumPy) of a pure or channel op; outputs as a list.

    Floating-point warnings are silenced: IEEE results (inf, nan) are the ops' defined values.
    """
    kernel = definition.host_kernel or definition.kernel
    assert kernel is not None
    if definition.checks is not None:
        definition.checks(ctx, inputs, attrs)
    with np.errstate(all="ignore"):
        return outputs_of(definition, attrs, kernel(ctx, inputs, attrs))


def needs_lax(definition: OpDefinition) -> bool:
    """Whether the op can only run through XLA: its kernel says ``uses_lax`` and it has no host kernel."""
    return definition.host_kernel is None and getattr(definition.kernel, "uses_lax", False)


class HandedOver(np.ndarray):
    """An array that a kernel made and has let go of: an assignment may keep it without a copy."""


def handed_over(array: np.ndarray) -> np.ndarray:
    """Mark a large array that an io kernel returns and nobody else holds; it becomes read-only."""
    array.flags.writeable = False
    return array.view(HandedOver)


def borrows(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a kernel that looks at its operands while it runs, keeps none of them and returns no view of one.

    It is given the memory of variables itself instead of copies.
    """
    kernel.borrows = True  # type: ignore[attr-defined]
    return kernel


def uses_lax(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a kernel that calls ``ctx.lax``, so that the interpreter runs it through its own compiled form."""
    kernel.uses_lax = True  # type: ignore[attr-defined]
    return kernel
