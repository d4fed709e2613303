"""AutoGraph: Python's ``if``, ``while`` and ``for`` over tensors of a graph, by the package `diastatic-malt`.

The package rewrites the source of a function so that control flow becomes calls of *operators*. Here are the operators
for tensors that have no value yet; everything else goes to the package's own, which are Python's. It is an extra
(``pip install anabranch[autograph]``): without it functions are traced as they stand, and an ``if`` on such a tensor
raises an error that names the extra.

A branch, or the body of a loop, is a function without arguments that changes variables of the function around it;
``get_state`` and ``set_state`` read and write these. A variable that only one branch gives a value is zeros in the
other where that is the value to return, and else an error.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import api as published
from anabranch.core.contract.api import public
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Deferred, GraphTensor
from anabranch.ops.control.public_cond import cond as conditional
from anabranch.ops.control.public_while import while_loop

_lock = threading.RLock()
"""Held while a function runs whose source is rewritten: the package has one rewriter in a process."""


@functools.cache
def _malt() -> Any:
    """The package's module of conversions with our operators; None if the package is not there."""
    try:
        malt = importlib.import_module("malt.impl.api")
    except ImportError:
        return None
    config: Any = importlib.import_module("malt.core.config")
    config.CONVERSION_RULES = (config.DoNotConvert("anabranch"), config.DoNotConvert("numpy"), *config.CONVERSION_RULES)
    builtins: Any = importlib.import_module("malt.operators.py_builtins")
    builtins.len_registry.register(Deferred, _length)
    builtins.print_registry.register(Deferred, _print)
    builtins.abs_registry.register(Deferred, abs)
    return malt


class _Operators:
    """Our operators over those of the package."""

    def __init__(self, malt: Any) -> None:
        transpiler = self.transpiler = type("Transpiler", (malt.PyToPy,), {})()
        module = transpiler.get_extra_locals()["ag__"]
        names = ("if_stmt", "while_stmt", "for_stmt", "if_exp", "and_", "or_", "not_")
        self._own: dict[str, Any] = {name: getattr(module, name) for name in names}
        self.undefined = (module.Undefined, module.UndefinedReturnValue)
        for name in self._own:
            setattr(module, name, getattr(self, name))

    # ---------------------------------------------------------------------------------------------------- expressions
    def if_exp(self, cond: Any, if_true: Any, if_false: Any, expr_repr: str) -> Any:
        """``a if cond else b``."""
        if _waits(cond):
            return conditional(cond, if_true, if_false)
        return self._own["if_exp"](cond, if_true, if_false, expr_repr)

    def and_(self, a: Any, b: Any) -> Any:
        """``a and b``."""
        first = a()
        if _waits(first):
            return conditional(first, lambda: convert_to_tensor(b()), lambda: first)
        return self._own["and_"](lambda: first, b)

    def or_(self, a: Any, b: Any) -> Any:
        """``a or b``."""
        first = a()
        if _waits(first):
            return conditional(first, lambda: first, lambda: convert_to_tensor(b()))
        return self._own["or_"](lambda: first, b)

    def not_(self, a: Any) -> Any:
        """``not a``."""
        return build("LogicalNot", a) if _waits(a) else self._own["not_"](a)

    # ----------------------------------------------------------------------------------------------------- statements
    def if_stmt(
        self, cond: Any, body: Any, orelse: Any, get_state: Any, set_state: Any, names: Any, nouts: int
    ) -> None:
        """``if cond: body()`` and ``else: orelse()``."""
        if not _waits(cond):
            self._own["if_stmt"](cond, body, orelse, get_state, set_state, names, nouts)
            return
        start = get_state()

        def values_of(branch: Callable[[], Any]) -> list[Any]:
            set_state(start)
            branch()
            return list(get_state()[:nouts])

        def run(branch: Callable[[], Any], other: Callable[[], list[Any]], role: str) -> list[Any]:
            values = values_of(branch)
            missing = [i for i, value in enumerate(values) if isinstance(value, self.undefined)]
            if missing:
                theirs = other()
                for i in missing:
                    if isinstance(values[i], self.undefined[0]) and not isinstance(theirs[i], self.undefined):
                        raise ValueError(
                            f"'{names[i]}' must also be initialized in the {role} branch\n"
                            + errors.message(
                                f"{names[i]!r}, which has a value in one branch of an `if` over a tensor",
                                "a value in both",
                                f"{names[i]} = ... before the if",
                            )
                        )
                    values[i] = None if isinstance(theirs[i], self.undefined) else _zeros(theirs[i])
            return values

        kept: dict[str, list[Any]] = {}

        def traced(branch: Callable[[], Any], other: Callable[[], Any], role: str) -> Callable[[], list[Any]]:
            def function() -> list[Any]:
                kept[role] = run(branch, lambda: _probed(lambda: values_of(other)), role)
                if len(kept) == 2:
                    _check_dtypes_of_branches(names, kept["main"], kept["else"])
                return [None if not _is_value(value) else value for value in kept[role]] + [constant(0)]

            return function

        results = conditional(cond, traced(body, orelse, "main"), traced(orelse, body, "else"), strict=True)
        final = [result if result is not None else kept["main"][i] for i, result in enumerate(results[:nouts])]
        set_state((*final, *start[nouts:]))

    def while_stmt(self, test: Any, body: Any, get_state: Any, set_state: Any, names: Any, opts: Any) -> None:
        """``while test(): body()``."""
        start = get_state()
        if not _waits(test()):
            set_state(start)
            self._own["while_stmt"](test, body, get_state, set_state, names, opts)
            return
        set_state(start)
        self._loop(test, body, get_state, set_state, opts)

    def for_stmt(
        self, values: Any, more: Any, body: Any, get_state: Any, set_state: Any, names: Any, opts: Any
    ) -> None:
        """``for iterate in values: body(iterate)``, as long as ``more()`` holds, if that is given."""
        if _is_dataset(values, "data.Iterator") and current_builder().defers:
            self._for_elements(values, more, body, get_state, set_state, names, opts)
            return
        if not _waits(values):
            self._own["for_stmt"](values, more, body, get_state, set_state, names, opts)
            return
        known = values._shape[0] if values._shape else None
        count = (
            constant(known)
            if known is not None
            else build("StridedSlice", build("Shape", values), [0], [1], [1], shrink_axis_mask=1)
        )
        state: dict[str, Any] = {"i": constant(0)}

        def get() -> Any:
            return (state["i"], *get_state())

        def put(new: Any) -> None:
            state["i"] = new[0]
            set_state(new[1:])

        def test() -> Any:
            goes_on = build("Less", state["i"], count)
            return (
                goes_on
                if more is None
                else conditional(goes_on, lambda: convert_to_tensor(more()), lambda: constant(False))
            )

        def step() -> None:
            i = state["i"]
            body(build("GatherV2", values, i, 0))
            state["i"] = i + 1

        self._loop(test, step, get, put, opts)

    def _for_elements(
        self, values: Any, more: Any, body: Any, get_state: Any, set_state: Any, names: Any, opts: Any
    ) -> None:
        """The same over a dataset, which each run of the loop begins anew, or over what is left in an iterator.

        A turn takes an element if there is one; the turn that finds none is the last.
        """
        begins: list[Any] = []
        if _is_dataset(values):
            values = published.names()["data.make_initializable_iterator"](values)
            begins = [values.initializer]
        state: dict[str, Any] = {"more": constant(True)}

        def get() -> Any:
            return (state["more"], *get_state())

        def put(new: Any) -> None:
            state["more"] = new[0]
            set_state(new[1:])

        def test() -> Any:
            if more is None:
                return state["more"]
            return conditional(state["more"], lambda: convert_to_tensor(more()), lambda: constant(False))

        def step() -> None:
            optional = published.names()["data.experimental.get_next_as_optional"](values)
            present = optional.has_value()

            def nothing() -> None:
                pass

            self.if_stmt(
                present, lambda: body(optional.get_value()), nothing, get_state, set_state, names, len(get_state())
            )
            state["more"] = present

        with current_builder().control_dependencies(begins):
            self._loop(test, step, get, put, opts)

    def _loop(self, test: Any, body: Any, get_state: Any, set_state: Any, opts: Any) -> None:
        start = list(get_state())
        if any(isinstance(value, self.undefined) for value in start):
            later = _probed(lambda: _run(body, get_state))
            set_state(tuple(start))
            start = [
                _zeros(new) if isinstance(old, self.undefined) and _is_value(new) else old
                for old, new in zip(start, later, strict=True)
            ]
        looped = [i for i, value in enumerate(start) if _is_value(value)]

        def full(values: Sequence[Any]) -> tuple[Any, ...]:
            state = list(start)
            for i, value in zip(looped, values, strict=True):
                state[i] = value
            return tuple(state)

        def condition(*values: Any) -> Any:
            set_state(full(values))
            return test()

        def step(*values: Any) -> list[Any]:
            set_state(full(values))
            body()
            after = get_state()
            return [after[i] for i in looped]

        limit = (opts or {}).get("maximum_iterations")
        results = while_loop(
            condition, step, [start[i] for i in looped], maximum_iterations=limit, return_same_structure=True
        )
        set_state(full(results))


def _run(body: Callable[[], Any], get_state: Callable[[], Any]) -> list[Any]:
    body()
    return list(get_state())


def _waits(value: Any) -> bool:
    """Whether Python cannot branch on a value, as it is not there yet."""
    return isinstance(value, Deferred)


def _is_dataset(value: Any, *others: str) -> bool:
    """Whether something is a dataset, or of another public class; `tf.data` stands above, and is found by its names."""
    kinds = [published.names().get(name) for name in ("data.Dataset", *others)]
    return isinstance(value, tuple([kind for kind in kinds if kind is not None]))


def _is_value(value: Any) -> bool:
    """Whether a variable's value can be that of a tensor."""
    return (
        composites.is_composite(value)
        or isinstance(value, Deferred | bool | int | float | complex | np.ndarray | np.generic)
        or hasattr(value, "_known")
        or hasattr(value, "initializer")
    )


def _check_dtypes_of_branches(names: Sequence[Any], first: Sequence[Any], second: Sequence[Any]) -> None:
    """Raise TypeError for a variable that has one dtype in one branch of an ``if``, and another in the other."""
    for name, one, other in zip(names, first, second, strict=False):
        if not all([_is_value(value) and not composites.is_composite(value) for value in (one, other)]):
            continue
        dtype, wanted = [convert_to_tensor(value).dtype.base for value in (one, other)]
        if dtype is not wanted:
            raise TypeError(
                f'"{name}" has dtype {dtype.name} in the TRUE branch, but dtype={wanted.name} in the FALSE branch. '
                "TensorFlow control flow requires that they are the same.\n"
                + errors.message(
                    f"{name!r}, which an `if` over a tensor makes {dtype.name} or {wanted.name}",
                    "one dtype in both branches",
                    f"{name} = tf.cast({name}, tf.{dtype.name}) in the branch that differs",
                )
            )


def _zeros(like: Any) -> Any:
    """Zeros like what another branch gives."""
    if type(like) is not GraphTensor:
        return build("ZerosLike", convert_to_tensor(like))
    shape = like._shape
    if shape is not None and None not in shape:
        return build("Fill", constant(list(shape), "int32"), constant(0, like.dtype.base))
    return build("Fill", constant([0] * len(shape or ()), "int32"), constant(0, like.dtype.base))


def _probed(function: Callable[[], list[Any]]) -> list[Any]:
    """What a branch would give: it is built into a body that nothing runs."""
    graph: Any = current_builder()
    body = graph.new_body("probe")
    with graph.building(body):
        return function()


def _length(tensor: GraphTensor) -> Any:
    """``len`` of a tensor."""
    shape = tensor._shape
    if shape and shape[0] is not None:
        return shape[0]
    return build("StridedSlice", build("Shape", tensor), [0], [1], [1], shrink_axis_mask=1)


def _print(*values: Any, **how: Any) -> Any:
    """``print`` of tensors, when the graph runs."""
    del how
    return published.names()["print"](*values)


def _range(*arguments: Any) -> Any:
    """``range``, of tensors too."""
    return published.names()["range"](*arguments) if any(map(_waits, arguments)) else range(*arguments)


@functools.cache
def _operators() -> _Operators:
    return _Operators(_malt())


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """Let the package use our operators inside the block."""
    malt = _malt()
    builtins = importlib.import_module("malt.operators.py_builtins")
    with _lock:
        before, malt._TRANSPILER = malt._TRANSPILER, _operators().transpiler
        table = builtins.BUILTIN_FUNCTIONS_MAP
        kept = table["range"]
        table["range"] = _range
        try:
            yield
        finally:
            malt._TRANSPILER = before
            table["range"] = kept


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose control flow may depend on tensors; the function itself where the package is not there."""
    malt = _malt()
    if malt is None:
        return _advised(function)
    rewritten = malt.convert(recursive=True)(function)

    @functools.wraps(function, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        with _ours():
            return rewritten(*args, **kwargs)

    return run


def _advised(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose refused ``if`` over a tensor says what would let it be."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as problem:
            if "used as a Python bool" in str(problem):
                problem.add_note("`if` and `while` over tensors of a tf.function: pip install anabranch[autograph]")
            raise

    return run


@public("autograph.experimental.do_not_convert")
def do_not_convert(func: Any = None) -> Any:
    """Decorator: trace a function as it stands."""
    if func is None:
        return do_not_convert
    malt = _malt()
    return func if malt is None else malt.do_not_convert(func)


@public("autograph.to_graph")
def to_graph(
    entity: Any,
    recursive: bool = True,
    arg_values: Any = None,
    arg_types: Any = None,
    experimental_optional_features: Any = None,
) -> Any:
    """A function whose control flow may depend on tensors of a graph.

    Args:
        entity: a Python function.
        recursive: convert what it calls, too.
        arg_values: not needed, as in TensorFlow 1.15: what a function is called with decides.
        arg_types: likewise.
        experimental_optional_features: likewise; all features are there.

    Raises:
        ImportError: the extra ``autograph`` is not installed.
    """
    del recursive, arg_values, arg_types, experimental_optional_features
    _required("to_graph")
    return converted(entity)


@public("autograph.to_code")
def to_code(
    entity: Any,
    recursive: bool = True,
    arg_values: Any = None,
    arg_types: Any = None,
    indentation: str = "  ",
    experimental_optional_features: Any = None,
) -> str:
    """The source of the function that :func:`to_graph` makes.

    Args:
        entity: a Python function.
        recursive: as in :func:`to_graph`.
        arg_values: not needed, as in TensorFlow 1.15.
        arg_types: likewise.
        indentation: what a line within a block begins with, for each block.
        experimental_optional_features: not needed; all features are there.

    Raises:
        ImportError: the extra ``autograph`` is not installed.
    """
    del recursive, arg_values, arg_types, experimental_optional_features
    malt = _required("to_code")
    with _ours():
        lines = malt.to_code(entity).splitlines()
    result = []
    for line in lines:
        depth = (len(line) - len(line.lstrip(" "))) // 4
        result.append(indentation * depth + line[4 * depth :])
    return "\n".join(result) + "\n"


def _required(what: str) -> Any:
    malt = _malt()
    if malt is None:
        raise ImportError(
            errors.message(f"tf.autograph.{what}", "the package diastatic-malt", "pip install anabranch[autograph]")
        )
    return malt


__all__ = ["converted", "do_not_convert", "to_code", "to_graph"]
