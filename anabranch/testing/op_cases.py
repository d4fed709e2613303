"""Rows that drive an op's tests: one row says how to call the op and what it must give, and all checks follow from it.

A row names the op type, a reference in NumPy that is independent of the kernels (it is given floats as float64 and
complex numbers as complex128), and
cases: inputs drawn from a domain, or given. The first case runs for every dtype of the row, further ones for its main
    dtype. A family's rows are a table::

    ROWS = [
        row("Exp", np.exp, [case(real(3, 4)), case(real()), case(real(0, 2))], "half float double complex64"),
        row("Sum", lambda x, axes, keep_dims=False: np.sum(x, tuple(axes), keepdims=keep_dims),
            [case(real(2, 3), [1]), case(real(2, 3), [0, 1], keep_dims=True)]),
    ]

Inputs stand in the order of the signature; a list argument is a Python list of inputs. For an op that writes state, the
operand that holds the resource is the variable's value before, and the reference returns the new value of each written
resource, in the order of the effect, then the outputs that are not references. A known gap is data: ``gaps={"order 2":
"why"}`` lets that check fail, and makes its success an error.

The checks are in :mod:`anabranch.testing.op_checks`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.values import dtypes

CHECKS = ("forward", "shape", "order 1", "order 2", "serialisation")
"""What a row is checked for, and what may stand in ``gaps``."""

ANY = "half bfloat16 float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"
"""Dtypes for ops that take every dtype that XLA has."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """A random input: shape and domain. Integer dtypes get the integers of the domain, unsigned ones those from 0
    on.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    margin: float = 0.0
    """Distance kept from 0."""
    distinct: bool = False
    """Whether all elements differ, by enough for a finite difference."""
    whole: bool = False
    """Whether floats are whole numbers, too."""

    def draw(self, random: np.random.Generator, dtype: dtypes.DType) -> np.ndarray:
        """An array of the dtype."""
        if dtype.is_bool:
            return random.integers(0, 2, self.shape).astype(bool)
        if dtype.base is dtypes.string:
            words = np.array([b"", b"a", b"abc", "\u00e9t\u00e9".encode(), b"\x00z"], object)
            sample = np.empty(self.shape, object)  # indexing with a scalar would give the element itself
            sample[...] = words[random.integers(0, len(words), self.shape)]
            return sample
        assert dtype.np is not None
        if dtype.is_complex:
            return (self._floats(random) + 1j * self._floats(random)).astype(dtype.np)
        if dtype.is_floating and not self.whole:
            return self._floats(random).astype(dtype.np)
        low = max(self.low, 0) if dtype.is_unsigned or dtype.name in ("quint8", "quint16") else self.low
        integers = np.arange(int(np.ceil(low)), int(np.floor(self.high)) + 1)
        integers = integers[np.abs(integers) >= self.margin]
        sample = random.choice(integers, self.shape, replace=not self.distinct)
        return np.asarray(sample).astype(dtype.np)

    def _floats(self, random: np.random.Generator) -> np.ndarray:
        if self.distinct:
            size = int(np.prod(self.shape))
            return random.permutation(np.linspace(self.low, self.high, size)).reshape(self.shape)
        numbers = random.uniform(self.low, self.high, self.shape)
        near = np.abs(numbers) < self.margin
        return np.where(near, np.where(numbers < 0, -1, 1) * (self.margin + np.abs(numbers)), numbers)


def real(*shape: int, low: float = -2.0, high: float = 2.0, margin: float = 0.0, distinct: bool = False) -> Sample:
    """Numbers from ``low`` to ``high``, not nearer to 0 than ``margin``, all different if ``distinct``."""
    return Sample(shape, low, high, margin, distinct)


def whole(*shape: int, low: int = -4, high: int = 4, distinct: bool = False) -> Sample:
    """Whole numbers from ``low`` to ``high`` inclusive, also for floating dtypes."""
    return Sample(shape, low, high, 0.0, distinct, True)


def broadcasting(*, low: float = -2.0, high: float = 2.0, margin: float = 0.0) -> list[Case]:
    """Cases of a binary op: equal shapes, broadcasting on both sides, scalars, nothing."""

    def one(*shape: int) -> Sample:
        return Sample(shape, low, high, margin)

    return [
        case(one(2, 3), one(2, 3)),
        case(one(2, 1, 3), one(4, 1)),
        case(one(), one(3)),
        case(one(), one()),
        case(one(0, 3), one(1, 3)),
    ]


def each_shape(
    *, low: float = -2.0, high: float = 2.0, margin: float = 0.0, special: Sequence[float] = ()
) -> list[Case]:
    """Cases of a unary op: a matrix, a scalar, nothing, and special values."""
    cases = [case(Sample(shape, low, high, margin)) for shape in ((3, 4), (), (2, 0))]
    return cases + ([case(list(special), grad=False)] if len(special) else [])


def positive(*shape: int, low: float = 0.5, high: float = 3.0) -> Sample:
    """Numbers from ``low`` to ``high``, which are above 0."""
    return Sample(shape, low, high)


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of an op: inputs, attributes, types of attributes that the row does not vary."""

    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    types: dict[str, str]
    main: str | None
    grad: bool


def case(
    *inputs: Any, types: dict[str, str] | None = None, dtype: str | None = None, grad: bool | None = None, **attrs: Any
) -> Case:
    """One call of an op.

    Args:
        inputs: samples, arrays or nested lists of values, or a list of those for a list argument.
        types: dtype names of other type attributes (``{"Tidx": "int64"}``), blank-separated for a list of types;
            the default otherwise, or int32 or float where they are allowed.
        dtype: the row's dtype in this case alone, instead of the main one.
        grad: whether the case joins the gradient checks; if None, whether an input is drawn (given values are often
        special).
        attrs: attributes; the reference gets them as keyword arguments.
    """
    if grad is None:
        grad = any(
            isinstance(item, Sample) for given in inputs for item in (given if isinstance(given, list) else [given])
        )
    return Case(inputs, attrs, types or {}, dtype, grad)


@dataclasses.dataclass(frozen=True)
class Row:
    """What drives the tests of one op type; see :func:`row`."""

    type_name: str
    reference: Callable[..., Any] | None
    cases: tuple[Case, ...]
    varied: str | None
    names: tuple[str, ...]
    tolerance: float
    order: int
    gaps: dict[str, str]
    check: Callable[..., None] | None
    open_shape: str
    elsewhere: str
    word: str
    wrt: tuple[str, ...] | None
    outputs: tuple[int, ...] | None
    invariant: Callable[..., Sequence[Any]] | None = None

    @property
    def definition(self) -> opdef.OpDefinition:
        """The contract."""
        return opdef.lookup(self.type_name)

    @property
    def main(self) -> str | None:
        """The dtype of further cases."""
        for name in ("float", "int32"):
            if name in self.names:
                return name
        return self.names[0] if self.names else None


def row(
    type_name: str,
    reference: Callable[..., Any] | None,
    cases: Sequence[Case],
    types: str | None = None,
    *,
    vary: str | None = None,
    tolerance: float = 1.0,
    order: int = 2,
    gaps: dict[str, str] | None = None,
    check: Callable[..., None] | None = None,
    open_shape: str = "",
    wrt: str | None = None,
    outputs: Sequence[int] | None = None,
    invariant: Callable[..., Sequence[Any]] | None = None,
) -> Row:
    """The row of an op.

    Args:
        type_name: the op type.
        reference: NumPy function of the inputs and the case's attributes; None if ``check`` judges alone.
        cases: calls; the first one runs for all ``types``.
        types: blank-separated dtype names; what the contract allows (or :data:`ANY`) if None.
        vary: the type attribute that takes them; ``T``, ``dtype`` or the first one that inputs use if None.
        tolerance: factor on the usual tolerance of each dtype.
        order: up to which order gradients are checked; those that the contract calls not differentiable never are.
        gaps: check (of :data:`CHECKS`) -> reason why it is known to fail.
        check: ``check(outputs, inputs, attrs)`` raises AssertionError for wrong outputs, for ops whose outputs no
            formula tells.
        open_shape: reason why static shapes are not complete though all input shapes are.
        wrt: blank-separated names of the inputs that gradients are checked for; all continuous ones if None.
        outputs: positions of the outputs that gradients are checked for; all continuous ones if None.
        invariant: ``invariant(*outputs)`` gives the tensors that gradients are checked for where outputs depend
            on a choice of the routine that ran, as signs of eigenvectors do.
    """
    unknown = set(gaps or {}) - set(CHECKS)
    if unknown:
        raise ValueError(errors.message(f"gaps for {sorted(unknown)}", f"checks among {CHECKS}", "rename it"))
    if (reference is None) == (check is None):
        raise ValueError(errors.message(f"row {type_name!r}", "a reference or a check", "give one of them"))
    if not cases:
        raise ValueError(errors.message(f"row {type_name!r} without cases", "a case", "case(real(2, 3))"))
    definition = opdef.lookup(type_name)
    varied = vary if vary is not None else _varied(definition, cases[0])
    names: tuple[str, ...] = ()
    if varied is not None:
        allowed = definition.attrs[varied].allowed
        usual = ANY if allowed is None else " ".join(dtypes.proto_name(d) for d in allowed if not _is_handle(d))
        names = tuple((types or usual).split())
    return Row(
        type_name,
        reference,
        tuple(cases),
        varied,
        names,
        tolerance,
        order,
        dict(gaps or {}),
        check,
        open_shape,
        "",
        "",
        None if wrt is None else tuple(wrt.split()),
        None if outputs is None else tuple(outputs),
        invariant,
    )


def elsewhere(type_name: str, test: str, word: str | None = None) -> Row:
    """The row of an op that a table cannot drive.

    Args:
        type_name: the op type.
        test: the file of the test that does, relative to the project's root.
        word: what must occur there; the op type if None.
    """
    opdef.lookup(type_name)
    return Row(type_name, None, (), None, (), 1.0, 0, {}, None, "", test, word or type_name, None, None)


@functools.cache
def load_rows(folder: Path) -> tuple[Row, ...]:
    """The rows of all families below a folder: the lists ``ROWS`` of the files ``FAMILY/rows_*.py``."""
    loaded_rows: list[Row] = []
    for path in sorted(folder.glob("*/rows_*.py")):
        spec = importlib.util.spec_from_file_location(f"{path.stem}_of_{path.parent.name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded_rows += module.ROWS
    return tuple(loaded_rows)


def _is_handle(dtype: dtypes.DType) -> bool:
    """Whether no table shows values of this dtype: handles, and quantised types, which are their integers."""
    return dtype.is_quantized or dtype in (dtypes.resource, dtypes.variant)


def _varied(definition: opdef.OpDefinition, first: Case) -> str | None:
    used = [spec.type_attr or spec.type_list_attr for spec in definition.inputs]
    candidates = ["T", "dtype", *[name for name in used if name]]
    for name in candidates:
        attr = definition.attrs.get(name)
        if attr is not None and attr.element == "type" and name not in first.types and name not in first.attrs:
            return name
    return None


# ---------------------------------------------------------------------------------------------------------- instances
@dataclasses.dataclass
class Instance:
    """A case with a dtype: complete attributes and arrays, ready to be built."""

    row: Row
    case: Case
    name: str
    attrs: dict[str, Any]
    inputs: list[Any]
    """One array for each argument, a list of arrays for a list argument."""

    @property
    def flat(self) -> list[np.ndarray]:
        """The arrays in the order of the op's flat inputs."""
        return [item for value in self.inputs for item in (value if isinstance(value, list) else [value])]

    def expected(self) -> list[np.ndarray]:
        """What the reference gives for the inputs, widened."""
        assert self.row.reference is not None
        given = [
            [widened(item) for item in value] if isinstance(value, list) else widened(value) for value in self.inputs
        ]
        with np.errstate(all="ignore"):
            references = self.row.reference(*given, **self.case.attrs)
        return (
            [np.asarray(item) for item in references]
            if isinstance(references, (tuple, list))
            else [np.asarray(references)]
        )


def widened(array: np.ndarray) -> np.ndarray:
    """Floats as float64, complex numbers as complex128, everything else as it is; a copy."""
    dtype = dtypes.as_dtype(array.dtype)
    if dtype.is_floating:
        return array.astype(np.float64)
    return array.astype(np.complex128) if dtype.is_complex else array.copy()


def instances(driven: Row, names: Sequence[str | None] | None = None) -> Iterator[Instance]:
    """The calls of a row: the first case in every dtype, others in the main one; in ``names`` if given, without those
    that have no gradient.
    """
    for position, item in enumerate(driven.cases):
        if names is not None and not item.grad:
            continue
        if names is not None:
            chosen: Sequence[str | None] = names if position == 0 or len(names) == 1 else names[:1]
        elif item.main is not None:
            chosen = [item.main]
        elif position == 0:
            chosen = driven.names or [None]
        else:
            chosen = [driven.main]
        for name in chosen:
            yield instance(driven, item, name, position)


def instance(driven: Row, item: Case, dtype_name: str | None, position: int) -> Instance:
    """One case with one dtype; the same random values each time."""
    definition = driven.definition
    label = f"{driven.type_name} case {position}" + (f" {dtype_name}" if dtype_name else "")
    try:
        attrs = _complete_attrs(definition, driven, item, dtype_name)
        seed = np.random.SeedSequence([position, *driven.type_name.encode()])
        random = np.random.default_rng(seed)
        if len(item.inputs) != len(definition.inputs):
            raise ValueError(f"{len(item.inputs)} inputs for the arguments {[spec.name for spec in definition.inputs]}")
        arrays = [
            _draw_argument(definition, spec, given, attrs, random)
            for spec, given in zip(definition.inputs, item.inputs, strict=True)
        ]
    except (ValueError, TypeError, KeyError) as problem:
        problem.add_note(f"in {label} of the op's row")
        raise
    return Instance(driven, item, label, attrs, arrays)


def _complete_attrs(definition: opdef.OpDefinition, driven: Row, item: Case, dtype_name: str | None) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    for spec, given in zip(definition.inputs, item.inputs, strict=False):
        if spec.number_attr is not None:
            attrs[spec.number_attr] = len(given)
        if spec.type_list_attr is not None and spec.type_list_attr not in item.types:
            attrs[spec.type_list_attr] = (dtypes.as_dtype(dtype_name or "float"),) * len(given)
    for key, names in item.types.items():
        kinds = tuple(dtypes.as_dtype(name) for name in names.split())
        attrs[key] = kinds if definition.attrs[key].is_list else kinds[0]
    for key, value in item.attrs.items():
        attrs[key] = definition.attrs[key].convert(value, key, definition.type_name)
    if driven.varied is not None and driven.varied not in attrs:
        attrs[driven.varied] = dtypes.as_dtype(dtype_name)
    for key, attr in definition.attrs.items():
        if key not in attrs and attr.default is not opdef.REQUIRED:
            attrs[key] = attr.default
        elif key not in attrs and attr.kind == "type" and attr.allowed is not None:
            usual = [dtype for dtype in (dtypes.int32, dtypes.float32) if dtype in attr.allowed]
            if usual:
                attrs[key] = usual[0]  # the type of indices, of statistics and the like
    return attrs


def _draw_argument(
    definition: opdef.OpDefinition, spec: Any, given: Any, attrs: dict[str, Any], random: np.random.Generator
) -> Any:
    kinds = spec.dtypes(attrs)
    if spec.is_list:
        return [_draw(item, kind, random) for item, kind in zip(given, kinds, strict=True)]
    (kind,) = kinds
    if kind.base is dtypes.resource:
        kind = attrs.get("dtype", attrs.get("T", dtypes.float32))
    return _draw(given, kind.base, random)


def _draw(given: Any, dtype: dtypes.DType, random: np.random.Generator) -> np.ndarray:
    if isinstance(given, Sample):
        return given.draw(random, dtype)
    assert dtype.np is not None
    with np.errstate(all="ignore"):
        return np.asarray(given).astype(dtype.np)
