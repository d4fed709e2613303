"""``tf.custom_gradient``: a function of tensors that brings its own gradient.

The function is called once, while the graph is built. Its results, its arguments and the variables it reads go through
one ``IdentityN`` whose rule is the function's own: the gradient with respect to the results themselves is None, so that
nothing flows into the ops that the function built. Variables are found in what the function adds to the graph: an op
that reads a resource names it.

``tf.grad_pass_through`` and ``tf.recompute_grad`` are custom gradients of functions that bring none.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.autodiff import registry
from anabranch.autodiff.gradients import gradients
from anabranch.autodiff.variable_reads import handles_read, variable_of_handle
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import lookup
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.default_graph import graph_of
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, OpView, Tensor
from anabranch.core.values import dtypes


@public("custom_gradient")
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: defines the gradient of a function of tensors.

    Args:
        f: function ``f(*x)`` that returns ``(y, grad_fn)``: ``y`` a tensor or a nested structure of tensors, and
            ``grad_fn(*grad_ys)`` a function that returns one gradient for each x. If ``f`` reads trainable resource
            variables, ``grad_fn(*grad_ys, variables=...)`` returns two lists, the second with a gradient for each.

    Returns:
        A function ``h(*x)`` with the values of ``f(*x)[0]`` and that gradient.

    Raises:
        ValueError: called with keyword arguments. TypeError: ``f`` makes a variable that is no resource variable, or
            reads variables that ``grad_fn`` does not take.

    Example:
        >>> import anabranch as tf
        >>> @tf.custom_gradient
        ... def clip_gradient(x):
        ...     return tf.identity(x), lambda grad: tf.identity(grad)
        >>> with tf.Graph().as_default():
        ...     clip_gradient(tf.constant(1.0)).op.type
        'IdentityN'
    """
    if not callable(f):
        raise TypeError(errors.message(f"custom_gradient({f!r})", "a function", "@tf.custom_gradient above a def"))

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if not current_builder().defers:
            return _call_at_once(f, args, kwargs)
        if kwargs:
            raise ValueError(
                "The custom_gradient decorator currently supports keywords arguments only when eager execution is "
                "enabled.\n"
                + errors.message(
                    f"keyword arguments {sorted(kwargs)} for {_told(f)}", "positional arguments", "f(x, y)"
                )
            )
        return _call(f, args)

    return decorated


@public("grad_pass_through")
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: what ``f`` computes, with the gradient of the identity.

    Args:
        f: function of tensors that returns as many tensors as it takes. Variables that it reads get no gradient.
    """

    @custom_gradient
    def passing(*args: Any) -> Any:
        def grad(*grads: Any, variables: Sequence[Any] | None = None) -> Any:
            return grads if variables is None else (grads, [None] * len(variables))

        return f(*args), grad

    return functools.wraps(f)(passing)


@public("recompute_grad")
def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: what ``f`` computes, whose gradient computes ``f`` anew instead of keeping what it computed.

    Args:
        f: function of tensors. Variables that it reads must be made outside of it, behind resource handles. What it is
            given by name has no gradient.
    """
    plain = _recomputing(f)

    def recomputed(*args: Any, **kwargs: Any) -> Any:
        return (plain if not kwargs else _recomputing(functools.partial(f, **kwargs)))(*args)

    return functools.wraps(f)(recomputed)


def _recomputing(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors alone whose gradient computes it anew."""

    @custom_gradient
    def recomputing(*args: Any) -> Any:
        def grad(*grads: Any, variables: Sequence[Any] | None = None) -> Any:
            graph = graph_of(grads)
            with graph.control_dependencies([one for one in grads if one is not None]):
                again = [build("Identity", arg) for arg in args]
                results = flatten(f(*again))
            wanted = [*again, *(variables or ())]
            slopes = gradients(results, wanted, list(grads))
            return slopes[: len(args)] if variables is None else (tuple(slopes[: len(args)]), slopes[len(args) :])

        return f(*args), grad

    result: Callable[..., Any] = recomputing
    return result


def _told(f: Callable[..., Any]) -> str:
    return f"the custom_gradient function {getattr(f, '__name__', repr(f))!r}"


def _call(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    graph = graph_of(arg for arg in args if isinstance(arg, Tensor))
    with graph.as_default():
        tensors = [convert_to_tensor(arg) for arg in args]
        before = len(graph._operations)
        returned = f(*tensors)
        if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[1]):
            raise TypeError(
                errors.message(f"{returned!r} from {_told(f)}", "(result, grad_fn)", "return y, lambda grad_y: ...")
            )
        result, grad_fn = returned
        variables = _variables_read(f, graph, graph._operations[before:])
        _check_signature(f, grad_fn, variables)
        flat = [convert_to_tensor(item) for item in flatten(result)]
        reads = [convert_to_tensor(variable) for variable in variables]
        count = len(flat)

        def rule(op: Any, *grads: Any) -> list[Any]:
            inputs, of_variables = _call_grad_fn(f, grad_fn, grads[:count], variables, len(tensors))
            return [None] * count + inputs + of_variables

        name = registry.unique_name("CustomGradient")
        with graph.gradient_override_map({"IdentityN": name}):
            op = build_operation("IdentityN", [flat + tensors + reads], {})
        registry.attach(op, name, rule)
        return pack(result, op._outputs[:count])


def _call_at_once(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same where ops run at once: nobody follows what the function does, but its results as a whole."""
    builder = current_builder()
    tensors = [convert_to_tensor(arg) for arg in args]
    with builder.init_scope():
        with builder.noted() as views:
            returned = f(*tensors, **kwargs)
        if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[1]):
            raise TypeError(
                errors.message(f"{returned!r} from {_told(f)}", "(result, grad_fn)", "return y, lambda grad_y: ...")
            )
        result, grad_fn = returned
        flat = [build("Identity", convert_to_tensor(item)) for item in flatten(result)]
    given = {id(arg) for arg in args}
    handles = {
        id(tensor): tensor
        for view in views
        if view.definition.effect.kind == "read"
        for tensor in view._inputs
        if tensor.dtype is dtypes.resource
    }
    owners = [getattr(handle, "_variable", lambda: None)() for handle in handles.values()]
    variables = [one for one in owners if one is not None and one.trainable and id(one) not in given]
    _check_signature(f, grad_fn, variables)

    def rule(op: Any, *grads: Any) -> list[Any]:
        inputs, of_variables = _call_grad_fn(f, grad_fn, grads, variables, len(tensors))
        return inputs + of_variables

    view = OpView(lookup("IdentityN"), (*tensors, *[one.handle for one in variables]), {}, tuple(flat))
    view.name = getattr(f, "__name__", "custom_gradient")
    view._gradient_function = rule  # type: ignore[attr-defined]
    builder.record(view)
    return pack(result, flat)


def _call_grad_fn(
    f: Callable[..., Any], grad_fn: Callable[..., Any], grads: Sequence[Any], variables: list[Any], count: int
) -> tuple[list[Any], list[Any]]:
    of_variables: list[Any] = []
    if variables:
        returned = grad_fn(*grads, variables=variables)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(
                errors.message(
                    f"{returned!r} from the grad_fn of {_told(f)}, which reads variables",
                    "a tuple of two lists: gradients of the arguments and of the variables",
                    "return [grad_x], [grad_variable]",
                )
            )
        returned, of_variables = returned[0], list(returned[1])
        if len(of_variables) != len(variables):
            raise ValueError(
                "Must return gradient for each variable from @custom_gradient grad_fn.\n"
                + errors.message(
                    f"{len(of_variables)} gradients of variables from the grad_fn of {_told(f)}",
                    f"one for each of {[variable.name for variable in variables]}",
                    "return [grad_x], [grad_v for v in variables]",
                )
            )
    else:
        returned = grad_fn(*grads)
    inputs = flatten(returned)
    if len(inputs) != count:
        raise ValueError(
            f"custom_gradient function expected to return {count} gradients, but returned {len(inputs)} instead.\n"
            + errors.message(
                f"{len(inputs)} gradients from the grad_fn of {_told(f)}",
                f"one for each of its {count} arguments, None where no gradient flows",
                "return grad_of_first_argument, grad_of_second_argument",
            )
        )
    return inputs, of_variables


def _check_signature(f: Callable[..., Any], grad_fn: Callable[..., Any], variables: list[Any]) -> None:
    if not variables:
        return
    spec = inspect.getfullargspec(grad_fn)
    if "variables" not in (*spec.args, *spec.kwonlyargs) and not spec.varkw:
        names = [variable.name for variable in variables]
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then grad_fn must accept a 'variables' "
            "keyword argument.\n"
            + errors.message(
                f"the grad_fn of {_told(f)}, which reads {names}",
                "an argument called variables",
                "def grad_fn(*grad_ys, variables=None): return [grad_x], [grad_of_variable]",
            )
        )


def _variables_read(f: Callable[..., Any], graph: Graph, ops: Sequence[Operation]) -> list[Any]:
    """The trainable variables that the ops ``ops`` read; TypeError if a ref variable is among what was made."""
    for op in ops:
        definition = op.definition
        if definition.makes == "variable" and any(output.dtype.is_ref for output in op._outputs):
            raise TypeError(
                "All variables used by `f` wrapped with @custom_gradient must be `ResourceVariable`s. Ensure that no "
                "`variable_scope` is created with `use_resource=False`.\n"
                + errors.message(
                    f"variable {op.name!r}, made by {_told(f)} as a reference",
                    "resource variables",
                    "tf.get_variable(..., use_resource=True)",
                )
            )
    variables = []
    for handle in handles_read(ops):
        variable = variable_of_handle(graph, handle)
        if variable is None:
            raise TypeError(
                errors.message(
                    f"{_told(f)} reads the variable {handle.op.name!r}, which is in no collection",
                    "variables in a collection of the graph, so that grad_fn can be given them",
                    "collections=[tf.GraphKeys.LOCAL_VARIABLES] when making the variable, or pass its value as an "
                    "argument",
                )
            )
        if variable.trainable:
            variables.append(variable)
    return variables


# ---------------------------------------------------------------------------------------------------------- structures
def flatten(value: Any) -> list[Any]:
    """Leaves of nested lists, tuples and dicts (in the order of sorted keys)."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def pack(structure: Any, leaves: Sequence[Any]) -> Any:
    """``leaves`` in the form of ``structure``."""
    rest = iter(leaves)

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            filled = {key: fill(part[key]) for key in sorted(part)}
            return type(part)((key, filled[key]) for key in part)
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*(fill(item) for item in part))
        if isinstance(part, (list, tuple)):
            return type(part)(fill(item) for item in part)
        return next(rest)

    return fill(structure)
