"""Functions of a graph: ``Defun``, the decorator of TensorFlow 1 that makes a Python function a call in the graph.

The Python function is called for each call in the graph, with the shapes of that call; what it makes goes into the body
of a `PartitionedCall` (`StatefulPartitionedCall` if it has an effect). Tensors that it uses from outside become inputs
of the call. Operations with an effect run even if no result needs them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build_operation
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graphdef import function_def
from anabranch.core.values import dtypes
from anabranch.ops.control.bodies import call_site, local, told


@public("Defun")
class Defun:
    """Decorator: makes a Python function of tensors a function of the graph.

    Args:
        input_types: dtype of each argument; by default those of the call.
        func_name: name of the function; that of the Python function by default.
        grad_func: a function made by ``Defun`` that takes the arguments and the gradients of the results, and returns
            the gradients of the arguments.
        python_grad_func: in its place, a Python function of the call's operation and the gradients of the results.
        out_names: names of the results.
        shape_func: function of the call's operation that returns the shape of each result.
        noinline: whether other programs may inline the calls; kept in the graph.
        capture_by_value: whether what the function uses from outside is computed within it, which needs no placeholder
            and no variable, in place of becoming inputs of the call.
        compiled, separate_compiled_gradients: have no effect: every function is compiled with its step.

    Example:
        >>> import anabranch as tf
        >>> @tf.Defun(tf.float32, tf.float32)
        ... def scaled_sum(x, y):
        ...     return 2.0 * x + y
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     session.run(scaled_sum(1.0, 3.0))
        np.float32(5.0)
    """

    def __init__(self, *input_types: Any, **kwargs: Any) -> None:
        if len(input_types) == 1 and isinstance(input_types[0], (list, tuple)):
            input_types = tuple(input_types[0])
        self._types = [dtypes.as_dtype(item) for item in input_types]
        self._options = kwargs

    def __call__(self, func: Callable[..., Any]) -> DefinedFunction:
        if not callable(func):
            raise ValueError(
                f"function {func!r} must be callable\n"
                + errors.message(f"Defun({func!r})", "a function of tensors", "@tf.Defun(tf.float32) above a def")
            )
        count = _count_of(func)
        if self._types and count is not None and not count[0] <= len(self._types) <= count[1]:
            raise ValueError(
                "The function has fewer arguments than the number of specified input types.\n"
                + errors.message(
                    f"{len(self._types)} input types for {told(func)}",
                    f"{count[0]} to {count[1]} input types, one for each argument",
                    "@tf.Defun(tf.float32, ...) with one dtype for each argument",
                )
            )
        types = self._types if self._types or (count is not None and count[1] == 0) else None
        return DefinedFunction(func, types, **self._options)


def _count_of(func: Callable[..., Any]) -> tuple[int, float] | None:
    """The least and most arguments a function takes; None if Python does not know."""
    try:
        spec = inspect.getfullargspec(func)
    except TypeError:
        return None
    if spec.varkw or spec.defaults or spec.kwonlyargs:
        raise ValueError(
            "function with argument defaults or keywords arguments are not supported. "
            f"{func} has defaults {spec.defaults} and keywords {spec.varkw}.\n"
            + errors.message(
                f"{told(func)} with defaults or keyword arguments",
                "tensors by position",
                "functools.partial or a lambda",
            )
        )
    arguments = len(spec.args) - (1 if inspect.ismethod(func) else 0)
    return arguments, float("inf") if spec.varargs else arguments


def _refuse_keywords(given: dict[str, Any], name: str) -> None:
    if given:
        keys = ", ".join(given)
        raise ValueError(
            f"Unknown keyword arguments: {keys}\n"
            + errors.message(f"{name}(..., {keys}=)", "keyword arguments that it has", "pass tensors by position")
        )


class DefinedFunction:
    """A function of graphs, made by ``Defun``: call it with tensors."""

    def __init__(
        self,
        func: Callable[..., Any],
        input_types: Sequence[dtypes.DType] | None,
        func_name: str | None = None,
        grad_func: DefinedFunction | None = None,
        python_grad_func: Callable[..., Any] | None = None,
        out_names: Sequence[str] | None = None,
        shape_func: Callable[[Operation], Sequence[Any]] | None = None,
        capture_by_value: bool = False,
        noinline: bool | None = None,
        compiled: bool = False,
        separate_compiled_gradients: bool = False,
        **kwargs: Any,
    ) -> None:
        del compiled, separate_compiled_gradients
        _refuse_keywords(kwargs, "Defun")
        if grad_func is not None and python_grad_func is not None:
            raise ValueError(
                "Gradient defined twice for function\n"
                + errors.message("grad_func= and python_grad_func=", "one of the two arguments", "grad_func=")
            )
        self._func = func
        self._types = None if input_types is None else list(input_types)
        given = str(func_name or getattr(func, "__name__", "function"))
        self._name: str = re.sub(r"[^A-Za-z0-9_.\\/>-]", "", given).lstrip("_-/") or "function"
        self._grad_func = grad_func
        self._python_grad_func = python_grad_func
        self._out_names = None if out_names is None else list(out_names)
        self._shape_func = shape_func
        self._noinline = noinline
        self._by_value = capture_by_value
        self._captured: list[Any] = []

    @property
    def captured_inputs(self) -> list[Any]:
        """The tensors from outside that the last call uses, as further inputs."""
        return list(self._captured)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._name

    @property
    def declared_input_types(self) -> list[dtypes.DType] | None:
        """Dtypes of the arguments; None if they are those of each call."""
        return self._types

    @property
    def python_grad_func(self) -> Callable[..., Any] | None:
        """The Python function that makes its gradient, if one was given."""
        return self._python_grad_func

    @property
    def grad_func_name(self) -> str | None:
        """Name of the function that is its gradient, if one was given."""
        return None if self._grad_func is None else self._grad_func.name

    def set_grad_func(self, grad_func: DefinedFunction) -> None:
        """Say which function is its gradient; ValueError if another one is."""
        if self._grad_func not in (None, grad_func) or self._python_grad_func is not None:
            raise ValueError(
                errors.message(
                    f"a second gradient for {self._name!r}", "one gradient for each function", "grad_func= in one place"
                )
            )
        self._grad_func = grad_func

    @property
    def definition(self) -> Any:
        """The FunctionDef, of a function with declared input types that uses nothing from outside."""
        if self._types is None:
            raise ValueError(
                errors.message(
                    f"the definition of {self._name!r} without input types",
                    "declared input types",
                    "@tf.Defun(tf.float32, ...)",
                )
            )
        with Graph().as_default() as graph:
            body = Body(graph, self._name, graph.root)
            self._trace(graph, body, [(dtype, None, None) for dtype in self._types])
            proto = function_def.function_def(body)
            proto.signature.description = inspect.getdoc(self._func) or ""
        if self._out_names:
            for output, name in zip(proto.signature.output_arg, self._out_names, strict=True):
                proto.ret[name] = proto.ret[output.name]
                if name != output.name:
                    del proto.ret[output.name]
                output.name = name
        return proto

    def add_to_graph(self, graph: Graph) -> None:
        """Do nothing: a graph holds the functions that its operations call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = kwargs.pop("name", None)
        noinline = kwargs.pop("noinline", self._noinline)
        _refuse_keywords(kwargs, self._name)
        site = call_site()
        wanted = self._types
        if wanted is not None and len(wanted) != len(args):
            raise ValueError(
                f"Expected number of arguments: {len(wanted)}, received: {len(args)}\n"
                + errors.message(
                    f"{len(args)} arguments for {told(self._func)}",
                    f"{len(wanted)} arguments",
                    f"{self._name}(...)",
                    at=site,
                )
            )
        with name_scope(name, self._name, args) as scope:
            tensors = [
                convert_to_tensor(arg, None if wanted is None else wanted[i], name=f"arg{i}")
                for i, arg in enumerate(args)
            ]
            graph = get_default_graph()
            body = graph.new_body("body")
            body.library_name = self._name
            self._trace(graph, body, [(t.dtype.base, t._shape, t._handle) for t in tensors])
            self._captured = captured = body_ops.line_up([body])
            kind = "StatefulPartitionedCall" if body_ops.is_stateful(body) else "PartitionedCall"
            types = [output.dtype.base for output in body.outputs]
            attrs: dict[str, Any] = {"f": body, "Tout": types}
            if noinline is not None:
                attrs["_noinline"] = bool(noinline)
            rule = self._rule(len(tensors), len(captured))
            if rule is None:
                op = build_operation(kind, [tensors + captured], attrs, scope)
            else:
                op = hooks.with_gradient(lambda: build_operation(kind, [tensors + captured], attrs, scope), kind, rule)
            body_ops.own(op)
        if self._shape_func is not None:
            for output, shape in zip(op._outputs, self._shape_func(op), strict=True):
                output.set_shape(shape)
        outputs = op._outputs
        if not outputs:
            return op
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _trace(self, graph: Graph, body: Body, arguments: Sequence[tuple[dtypes.DType, Any, Any]]) -> None:
        with graph.building(body), graph.control_dependencies(None):
            args = []
            body.copies = {} if self._by_value else None
            for name, (dtype, shape, handle) in zip(self._arguments(len(arguments)), arguments, strict=True):
                arg = body.add_arg(dtype, shape, name)
                arg._handle = handle
                args.append(arg)
            returned = self._func(*args)
            results = [] if returned is None or isinstance(returned, Operation) else returned
            if isinstance(returned, Operation):
                body.control_outputs.append(returned)
            if not isinstance(results, (list, tuple)):
                results = [results]
            if any(result is None for result in results):
                raise ValueError(
                    f"Function {self._name} can not return None.\n"
                    + errors.message(
                        f"{told(self._func)} that returns {returned!r}",
                        "a function that returns tensors",
                        "leave None out of the results",
                    )
                )
            body.outputs = [local(body, convert_to_tensor(result)) for result in results]
            if self._out_names and len(self._out_names) != len(results):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    "output names must be either empty or equal in size to outputs. "
                    f"output names size = {len(self._out_names)} outputs size = {len(results)}\n"
                    + errors.message(
                        f"out_names={self._out_names} for {told(self._func)}",
                        f"{len(results)} names, one for each result",
                        "out_names=None",
                    ),
                )
        body.control_outputs += function_def.implied_control_outputs(body)

    def _arguments(self, count: int) -> list[str]:
        """Names of the arguments in the body: those of the Python function, numbered where it takes any number."""
        try:
            spec = inspect.getfullargspec(self._func)
        except TypeError:
            return [f"arg{i}" for i in range(count)]
        names = spec.args[1 if inspect.ismethod(self._func) else 0 :]
        return [*names, *(f"{spec.varargs or 'arg'}{i}" for i in range(count))][:count]

    def _rule(self, count: int, captured: int) -> Callable[..., Any] | None:
        if self._python_grad_func is not None:
            return self._python_rule(captured)
        gradient = self._grad_func
        if gradient is None:
            return None

        def rule(op: Operation, *grads: Any) -> list[Any]:
            slopes = gradient(*op._inputs[:count], *grads)
            listed = [] if isinstance(slopes, Operation) else list(slopes) if isinstance(slopes, tuple) else [slopes]
            return listed + [None] * captured

        return rule

    def _python_rule(self, captured: int) -> Callable[..., Any]:
        function = self._python_grad_func
        assert function is not None

        def rule(op: Operation, *grads: Any) -> list[Any]:
            slopes = function(op, *grads)
            listed = list(slopes) if isinstance(slopes, (list, tuple)) else [slopes]
            return listed + [None] * (len(op._inputs) - len(listed)) if captured else listed

        return rule


__all__ = ["DefinedFunction", "Defun"]
