"""``tf.function``: a Python function that becomes a graph for each kind of arguments, and is called as one step.

A call is matched by its *signature*: the structure of the arguments, dtype and shape of each tensor (arrays count as
tensors), and everything else by value. The first call of a signature traces the function into a
:class:`~anabranch.eager.function_graph.FunctionGraph`; later ones run what came of it. Where a graph is built, the
function becomes a call in that graph, traced anew, as it may use tensors of it. Where another function is traced, its
ops become part of that trace, which runs all that has an effect like the function alone: so a program knows op by op
which of the writes must wait for which checks.

Variables are made once. A function that has made some when it was first traced is traced again at once, and one that
makes more then, or later, is refused: each call would have its own. (``defun``, the older decorator, lets it be.)

``autograph`` converts the function with AutoGraph first, so that ``if``, ``while`` and ``for`` may depend on tensors.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import body_ops, composites
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.tensor import Tensor
from anabranch.core.graphdef.function_def import implied_control_outputs
from anabranch.core.values import nest, shapes
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.core.values.type_spec import TypeSpec
from anabranch.eager import autograph
from anabranch.eager.concrete_function import ConcreteFunction, in_place, results_of
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.mode import EAGER
from anabranch.eager.signature import (
    Signature,
    canonical,
    checked_input_signature,
    common,
    is_wider,
    kept,
    raw_shape,
    without_shapes,
)
from anabranch.eager.tensor import EagerTensor
from anabranch.ops.control.bodies import local
from anabranch.platform import logging
from anabranch.variables.variable import Variable, variable_creator_scope

_PLAIN = frozenset([bool, int, float, str, type(None)])
"""Types of arguments that are told apart by value, and that nobody can change."""
MANY_TRACES = 5
"""Traces in a row, without a call that found one, after which a function warns."""
MOST_KEYS = 10_000
"""So many kinds of arguments are known by their short keys; others go by their signatures."""


_runs_eagerly = False


@public("config.experimental_run_functions_eagerly")
def run_functions_eagerly(run_eagerly: bool) -> None:
    """Say whether calls of :func:`function` run the Python function itself, line by line, as a debugger needs it.

    Example:
        >>> import anabranch as tf
        >>> tf.config.experimental_run_functions_eagerly(False)
    """
    global _runs_eagerly
    _runs_eagerly = bool(run_eagerly)


@contextlib.contextmanager
def _watching_variables(refuse: str) -> Iterator[list[Any]]:
    """The variables that are made inside the block; ``refuse`` names the function that may make none, if it is one."""
    made: list[Any] = []

    def note(variable: Any) -> None:
        if refuse:
            raise ValueError(
                "tf.function-decorated function tried to create variables on non-first call.\n"
                + errors.message(
                    f"variable {variable.name!r}, made by {refuse} in a call after the first",
                    "a function that makes its variables once",
                    "make the variable outside, or `if self.v is None: self.v = tf.Variable(...)`",
                )
            )
        made.append(weakref.ref(variable))

    scopes = EAGER._scopes
    before = scopes.variable_watchers
    scopes.variable_watchers = (*before, note)
    try:
        yield made
    finally:
        scopes.variable_watchers = before


def _noted(arg: Any, key: list[Any], tensors: list[Any]) -> bool:
    """Add an argument's tensors to ``tensors``, and to ``key`` what tells it from others; False if it has no such key.

    What has parts is followed by the keys of its parts, in the order in which they are flattened.
    """
    kind = type(arg)
    if kind is EagerTensor:
        key += [arg.dtype, arg._shape]
        tensors.append(arg)
        return True
    if kind in _PLAIN:
        key.append((kind, arg))
        return True
    if kind is np.ndarray or isinstance(arg, np.generic):
        tensor = convert_to_tensor(arg)
        key += [tensor.dtype, tensor._shape]
        tensors.append(tensor)
        return True
    if kind is list or kind is tuple:
        key.append((kind, len(arg)))
        return all([_noted(item, key, tensors) for item in arg])
    if kind is dict or nest.is_nested(arg):
        items = list(nest.items(arg))
        key.append((kind, *[name for name, _ in items]))
        return all([_noted(item, key, tensors) for _, item in items])
    described = composites.described(arg)
    if described is not None:
        parts = [part for part in described[1] if part is not None]
        key.append((described[0], *[(part.dtype, part._shape) for part in parts]))
        tensors += parts
        return True
    if isinstance(arg, Tensor | TypeSpec | TensorSpec | np.ndarray):
        return False
    key.append((kind, arg))
    return kind.__hash__ is not None


class Function:
    """What :func:`function` makes of a Python function; call it like that."""

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Sequence[Any] | None = None,
        autograph: bool = True,
        relax_shapes: bool = False,
        variables_once: bool = True,
    ) -> None:
        self._python_function = python_function
        self._input_signature = checked_input_signature(input_signature)
        self._autograph = autograph
        self._relax_shapes = relax_shapes
        self._variables_once = variables_once
        self._concrete: dict[Any, ConcreteFunction] = {}
        self._orders: dict[tuple[str, ...], Sequence[str]] = {}
        self._relaxed: dict[Any, tuple[list[tuple[Any, Any]], ConcreteFunction | None]] = {}
        self._made_variables = False
        self._calls = 0
        self._traces_in_a_row = 0
        self._bound: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()
        self._converted: Callable[..., Any] | None = None
        self._name = getattr(python_function, "__name__", type(python_function).__name__)
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            functools.update_wrapper(self, python_function)
        try:
            self._parameters: inspect.Signature | None = inspect.signature(python_function)
        except (TypeError, ValueError):
            self._parameters = None

    @property
    def python_function(self) -> Callable[..., Any]:
        """The Python function."""
        return self._python_function

    def _list_all_concrete_functions(self) -> list[ConcreteFunction]:
        """What the function has been traced for so far."""
        return list({id(one): one for one in self._concrete.values()}.values())

    @property
    def input_signature(self) -> Any:
        """For which arguments the function is traced, if that was given."""
        return self._input_signature

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The function bound to an object, which has traces of its own."""
        if instance is None:
            return self
        found = self._bound.get(instance)
        if found is None:
            reference = weakref.ref(instance)

            def method(*args: Any, **kwargs: Any) -> Any:
                return self._python_function(reference(), *args, **kwargs)

            method.__name__ = self._name
            found = self._bound[instance] = self._like(method)
            found._parameters = inspect.signature(self._python_function.__get__(instance))
        return found

    def _like(self, python_function: Callable[..., Any]) -> Function:
        return Function(
            python_function, self._input_signature, self._autograph, self._relax_shapes, self._variables_once
        )

    # ---------------------------------------------------------------------------------------------------------- calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _runs_eagerly:
            return self._python_function(*args, **kwargs)
        if current_builder().defers:
            return self._call_in_graph(args, kwargs)
        key: list[Any] = []
        tensors: list[Any] = []
        fits = all([_noted(arg, key, tensors) for arg in args])
        if kwargs and fits:
            names = tuple(kwargs)
            key.append(names)
            fits = all([_noted(kwargs[name], key, tensors) for name in self._in_order(names)])
        if not fits:
            return self._call(args, kwargs)
        whole = tuple(key)
        try:
            concrete = self._concrete.get(whole)
        except TypeError:  # a part that cannot be hashed, which the long way tells
            return self._call(args, kwargs)
        if concrete is None:
            signature = self._signature(args, kwargs)
            concrete = self._traced(signature)
            given = signature.tensors
            same = [(x.dtype, x._shape) for x in given] == [(x.dtype, x._shape) for x in tensors]
            if same and len(self._concrete) < MOST_KEYS:
                self._concrete[whole] = concrete
            return concrete.call_now(given)
        self._traces_in_a_row = 0
        return concrete.call_now(tensors)

    def _in_order(self, names: tuple[str, ...]) -> Sequence[str]:
        """Names of keywords in the order in which their values are flattened: by position, and then by name."""
        found = self._orders.get(names)
        if found is None:
            known = self._parameters.parameters.values() if self._parameters is not None else ()
            positional = [one.name for one in known if one.kind is one.POSITIONAL_OR_KEYWORD]
            first = [name for name in positional if name in names]
            found = self._orders[names] = [*first, *sorted(set(names).difference(first))]
        return found

    def _call(self, args: Any, kwargs: Any) -> Any:
        signature = self._signature(args, kwargs)
        return self._traced(signature).call_now(signature.tensors)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function traced for arguments, among which `tf.TensorSpec` may stand for tensors."""
        if self._input_signature is not None and not args and not kwargs:
            args = self._input_signature
        with EAGER.as_default():
            return self._traced(self._signature(args, kwargs))

    def _signature(self, args: Any, kwargs: Any) -> Signature:
        args, kwargs = self._bound_arguments(args, kwargs)
        if self._input_signature is not None:
            args, kwargs = self._checked(args, kwargs), {}
        return canonical((tuple(args), dict(kwargs)), self._name)

    def _bound_arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Arguments in the order of the parameters, with defaults, of which an input signature need not speak."""
        if self._parameters is None:
            return args, kwargs
        bound = self._parameters.bind(*args, **kwargs)
        given = len(bound.args)
        keywords = dict(bound.kwargs)
        bound.apply_defaults()
        if self._input_signature is None:
            return bound.args, bound.kwargs
        return bound.args[: max(given, len(self._input_signature))], keywords

    def _checked(self, args: Any, kwargs: Any) -> Any:
        """Arguments as the input signature says."""
        wanted = self._input_signature
        assert wanted is not None
        if kwargs:
            raise ValueError(
                "Cannot define a TensorFlow function from a Python function with keyword arguments when "
                "input_signature is provided.\n"
                + errors.message(f"keyword arguments {sorted(kwargs)}", "positional arguments", "f(x, y)")
            )
        try:
            leaves = nest.flatten_up_to(wanted, tuple(args))
        except (TypeError, ValueError) as problem:
            raise ValueError(
                "Structure of Python function inputs does not match input_signature.\n"
                + errors.message(f"arguments of {self._name}: {problem}", f"{wanted}", "pass what the signature names")
            ) from None
        filled = []
        for spec, arg in zip(nest.flatten(wanted), leaves, strict=True):
            if isinstance(spec, TensorSpec) and not isinstance(arg, TypeSpec):
                try:
                    arg = convert_to_tensor(arg, spec.dtype)
                except (TypeError, ValueError) as problem:
                    raise ValueError(
                        "Python inputs incompatible with input_signature: inputs "
                        f"({args}), input_signature ({wanted})\n"
                        + errors.message(
                            f"an argument of {self._name}: {problem}", f"{spec}", f"tf.cast(x, {spec.dtype})"
                        )
                    ) from None
            if not spec.is_compatible_with(arg):
                given = f"a tensor of shape {arg.shape}" if isinstance(arg, Tensor) else f"{arg!r}"
                raise ValueError(
                    f"Python inputs incompatible with input_signature: inputs ({args}), input_signature ({wanted})\n"
                    + errors.message(given, f"{spec}", "reshape it, or widen the signature")
                )
            filled.append(arg)
        return nest.pack_sequence_as(wanted, filled)

    # ---------------------------------------------------------------------------------------------------------- tracing
    def _traced(self, signature: Signature) -> ConcreteFunction:
        key: Any = signature.key
        specs = [(tensor.dtype.base, raw_shape(tensor)) for tensor in signature.tensors]
        if self._input_signature is not None:
            key = "input_signature"
            parts = [part for spec in nest.flatten(self._input_signature) for part in spec._part_specs()]
            specs = [(part.dtype.base, shapes.as_raw(part.shape)) for part in parts]
        found = self._concrete.get(key)
        if found is None and self._relax_shapes:
            found, specs = self._of_relaxed_shapes(signature, specs)
        if found is not None:
            self._traces_in_a_row = 0
            return found
        if self._input_signature is not None:  # which may know more of a value's shape than its parts tell
            signature = canonical((self._input_signature, {}), self._name)
        found = self._trace(signature, specs)
        self._concrete[key] = found
        if self._relax_shapes:
            self._relaxed[without_shapes(signature)] = (specs, found)
        self._traces_in_a_row += 1
        if self._traces_in_a_row == MANY_TRACES:
            logging.warning(
                "%d traces of %s in a row. Tracing is expensive, and too many of them may be due to passing Python "
                "numbers in place of tensors, or tensors of ever new shapes: pass tf.constant(n), or give "
                "input_signature= or experimental_relax_shapes=True.",
                MANY_TRACES,
                self._name,
            )
        return found

    def _of_relaxed_shapes(self, signature: Signature, specs: list[Any]) -> tuple[ConcreteFunction | None, list[Any]]:
        """What was traced for less known shapes, if it takes these tensors, else the shapes to trace for."""
        known = self._relaxed.get(without_shapes(signature))
        if known is None:
            return None, specs
        wide, concrete = known
        if concrete is not None and all(
            shapes.is_compatible(raw, other) and is_wider(raw, other)
            for (_, raw), (_, other) in zip(wide, specs, strict=True)
        ):
            return concrete, specs
        joined = [(dtype, common(raw, other)) for (dtype, raw), (_, other) in zip(wide, specs, strict=True)]
        return None, joined

    def _trace(self, signature: Signature, specs: list[tuple[Any, Any]]) -> ConcreteFunction:
        python_function = self._to_trace()
        first = self._calls == 0
        self._calls += 1
        refuse = "" if first or not self._variables_once else self._name
        with _watching_variables(refuse) as made:
            concrete = ConcreteFunction(self._name, python_function, signature, specs, self._parameters)
        if made and self._variables_once:  # as it will be from now on
            with _watching_variables(self._name):
                concrete = ConcreteFunction(self._name, python_function, signature, specs, self._parameters)
        return concrete

    def _to_trace(self) -> Callable[..., Any]:
        if not self._autograph:
            return self._python_function
        if self._converted is None:
            self._converted = autograph.converted(self._python_function)
        return self._converted

    def _call_in_graph(self, args: Any, kwargs: Any) -> Any:
        """Add a call of the function to the graph that is being built."""
        graph: Any = current_builder()
        args, kwargs = self._bound_arguments(args, kwargs)
        if self._input_signature is not None:
            args = self._checked(args, kwargs)
        signature = canonical((tuple(args), dict(kwargs)), self._name)
        tensors = [convert_to_tensor(tensor) for tensor in signature.tensors]
        first = self._calls == 0
        self._calls += 1
        refuse = "" if first or not self._variables_once else self._name
        scope_name = re.sub(r"[^A-Za-z0-9_.]", "", self._name).lstrip("_") or "function"
        with graph.name_scope(scope_name) as scope, graph.of_function(scope), _watching_variables(refuse):
            if isinstance(graph, FunctionGraph) and graph.current_body is graph.root:  # not in branches and loops
                return self._inlined(graph, signature, tensors)
            body = graph.new_body("body")
            body.runs_effects = True
            with graph.building(body), graph.control_dependencies(None):
                arguments = []
                for i, tensor in enumerate(tensors):
                    argument = body.add_arg(tensor.dtype.base, tensor._shape, f"x{i}")
                    argument._handle = tensor._handle
                    arguments.append(argument)
                given, named = signature.rebuild(arguments)
                check = kept((tuple(given), dict(named)))
                with variable_creator_scope(_behind_handles):
                    returned = self._to_trace()(*given, **named)
                check()
                structured, flat, places = results_of(returned, graph, self._name)
                body.outputs = [local(body, tensor) for tensor in flat]
            body.control_outputs += implied_control_outputs(body)
            captured = body_ops.line_up([body])
            kind = "StatefulPartitionedCall" if body_ops.is_stateful(body) else "PartitionedCall"
            attrs = {"f": body, "Tout": [output.dtype.base for output in body.outputs]}
            op = build_operation(kind, [tensors + captured], attrs, scope)
            body_ops.own(op)
        return in_place(structured, places, op._outputs, op)

    def _inlined(self, graph: Any, signature: Signature, tensors: Sequence[Any]) -> Any:
        """Add the function's ops to a trace, which runs all that has an effect, as the function alone would."""
        arguments = [
            tensor if tensor.dtype.base.np is None else build("Identity", tensor, name=f"x{i}")
            for i, tensor in enumerate(tensors)
        ]  # tensors of their own, for one may be passed twice
        first = len(graph.current_body.operations)
        given, named = signature.rebuild(arguments)
        returned = self._to_trace()(*given, **named)
        structured, flat, places = results_of(returned, graph, self._name)
        if places is not None:
            return in_place(structured, places, flat, None)
        effects = [op for op in graph.current_body.operations[first:] if _acts(op)]
        with graph.control_dependencies(effects):
            return build_operation("NoOp", [], {}, "done")


def _behind_handles(next_creator: Callable[..., Any], **arguments: Any) -> Any:
    """Make a variable of a function, which is behind a handle wherever the function is called."""
    return next_creator(**{**arguments, "use_resource": True})


def _acts(op: Operation) -> bool:
    return op.definition.is_stateful and op.definition.makes is None


@public("function", "contrib.eager.function")
def function(
    func: Any = None,
    input_signature: Any = None,
    autograph: bool = True,
    experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False,
    experimental_compile: bool | None = None,
) -> Any:
    """Make a function of tensors a graph that is called as one step.

    Args:
        func: the Python function; left out where this is used as a decorator with arguments.
        input_signature: `tf.TensorSpec` for each argument: the function is traced once, for these.
        autograph: let ``if``, ``while`` and ``for`` depend on tensors.
        experimental_autograph_options: has no effect.
        experimental_relax_shapes: trace for less known shapes where calls differ in them.
        experimental_compile: has no effect: what is compiled follows what it costs.

    Returns:
        A :class:`Function`, or a decorator.

    Raises:
        ValueError: from a call: the function makes variables in a call after the first.

    Example:
        >>> import anabranch as tf
        >>> @tf.function
        ... def square(x):
        ...     return x * x
        >>> square.get_concrete_function(tf.TensorSpec([], tf.float32)).outputs[0].dtype
        tf.float32
    """

    def decorate(python_function: Callable[..., Any]) -> Function:
        return Function(python_function, input_signature, autograph, bool(experimental_relax_shapes))

    return decorate if func is None else decorate(func)


@public("contrib.eager.defun")
def defun(
    func: Any = None,
    input_signature: Any = None,
    autograph: bool = True,
    experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False,
) -> Any:
    """Like :func:`function`, for functions that may make variables whenever they are traced; arguments likewise."""

    def decorate(python_function: Callable[..., Any]) -> Function:
        return Function(python_function, input_signature, autograph, bool(experimental_relax_shapes), False)

    return decorate if func is None else decorate(func)


__all__ = ["ConcreteFunction", "Function", "Variable", "defun", "function"]
