"""``functional_ops``: conditionals, loops and calls of functions made by ``tf.Defun``.

Policy. They build the operations that ``tf.cond`` and ``tf.while_loop`` build, so they run, differentiate and are saved
like these. A function may use tensors of the graph around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.protos import graph_pb2


def _listed(results: Any) -> list[Any]:
    if results is None or isinstance(results, tf.Operation):
        return []
    return [tf.convert_to_tensor(one) for one in (results if isinstance(results, (list, tuple)) else [results])]


def _holds(predicate: Any) -> Any:
    """A predicate of any dtype as a bool: numbers hold if they are not 0, texts and tensors if they are not empty."""
    predicate = tf.convert_to_tensor(predicate)
    filled = tf.greater(tf.size(predicate), 0)
    if predicate.shape.ndims not in (0, None):
        return filled
    if predicate.dtype.base_dtype == tf.string:
        holds = tf.not_equal(predicate, "")
    else:
        holds = tf.cast(predicate, tf.bool)
    if predicate.shape.ndims == 0:
        return holds
    return tf.logical_and(filled, tf.logical_or(tf.greater(tf.rank(predicate), 0), tf.reduce_any(holds)))


def If(
    cond: Any,
    inputs: Sequence[Any],
    then_branch: Callable[..., Any],
    else_branch: Callable[..., Any],
    name: str | None = None,
) -> list[Any]:
    """What one of two functions makes of ``inputs``, as a list.

    Args:
        cond: a scalar (it holds if it is not 0, or not empty) or a tensor (it holds if it has elements).
        inputs: tensors.
        then_branch: function of them, called if ``cond`` holds.
        else_branch: function of them, called otherwise; results have the dtypes of the other function's.
        name: name of the operation.
    """
    tensors = [tf.convert_to_tensor(one) for one in inputs]
    results = tf.cond(
        _holds(cond), lambda: _listed(then_branch(*tensors)), lambda: _listed(else_branch(*tensors)), name=name
    )
    return _listed(results)


def While(
    input_: Sequence[Any],
    cond: Callable[..., Any],
    body: Callable[..., Any],
    name: str | None = None,
    hostmem: Sequence[int] | None = None,
) -> list[Any]:
    """Variables after a loop, as a list.

    Args:
        input_: first values of the variables.
        cond: function of the variables; the loop goes on as long as what it gives holds.
        body: function of the variables that gives their next values, of the same dtypes.
        name: name of the loop.
        hostmem: has no effect.
    """
    del hostmem
    start = [tf.convert_to_tensor(one) for one in input_]

    def following(*values: Any) -> list[Any]:
        results = _listed(body(*values))
        if [one.dtype.base_dtype for one in results] != [one.dtype.base_dtype for one in start]:
            raise ValueError(
                errors.message(
                    f"a loop's body that gives {[one.dtype.name for one in results]}",
                    f"the types of the variables, {[one.dtype.name for one in start]}",
                    "tf.cast in the body",
                )
            )
        return results

    results = tf.while_loop(
        lambda *values: _holds(cond(*values)),
        following,
        start,
        shape_invariants=[tf.TensorShape(None) if _changes(body, start) else one.shape for one in start],
        name=name,
        return_same_structure=True,
    )
    return _listed(results)


def _changes(body: Any, start: Sequence[Any]) -> bool:
    """Whether a loop's variables may change shape: a function of declared types says nothing of shapes."""
    return getattr(body, "declared_input_types", None) is not None


def For(
    start: Any,
    limit: Any,
    delta: Any,
    inputs: Sequence[Any],
    body: Callable[..., Any],
    name: str | None = None,
    hostmem: Sequence[int] | None = None,
    rewrite_with_while: bool | None = None,
) -> list[Any]:
    """``for i in range(start, limit, delta): inputs = body(i, *inputs)``, as a list.

    Args:
        start: int32 scalar, the first value of the counter.
        limit: int32 scalar, which the counter does not reach.
        delta: int32 scalar, which is added to the counter; not 0.
        inputs: first values of the variables.
        body: function of the counter and the variables that gives the variables' next values.
        name: name of the loop.
        hostmem: has no effect.
        rewrite_with_while: has no effect: it is a ``While`` anyway.
    """
    del hostmem, rewrite_with_while
    start, limit, delta = (tf.convert_to_tensor(one, tf.int32) for one in (start, limit, delta))
    count = tf.cond(
        tf.equal(delta, 0),
        lambda: tf.constant(0),
        lambda: tf.maximum(0, -tf.floordiv(start - limit, tf.where(tf.equal(delta, 0), 1, delta))),
    )
    with tf.control_dependencies([tf.Assert(tf.not_equal(delta, 0), ["For needs a delta other than 0"])]):
        count = tf.identity(count)
    variables = [tf.convert_to_tensor(one) for one in inputs]
    open_shapes = [tf.TensorShape(None) if _changes(body, variables) else one.shape for one in variables]
    results = tf.while_loop(
        lambda k, *values: k < count,
        lambda k, *values: [k + 1, *_listed(body(start + k * delta, *values))],
        [tf.constant(0), *variables],
        shape_invariants=[tf.TensorShape([]), *open_shapes],
        name=name,
        return_same_structure=True,
    )
    return _listed(results)[1:]


def partitioned_call(
    args: Sequence[Any],
    f: Callable[..., Any],
    tout: Any = None,
    executing_eagerly: bool | None = None,
    config: Any = None,
    executor_type: str | None = None,
) -> Any:
    """What the function ``f`` makes of ``args``: a list of tensors, or an operation if there are none.

    Args:
        args: tensors.
        f: a function made by ``tf.Defun``.
        tout, executing_eagerly, config, executor_type: have no effect: a call is part of the step.
    """
    del tout, executing_eagerly, config, executor_type
    results = f(*args)
    return results if isinstance(results, tf.Operation) else _listed(results)


def remote_call(args: Sequence[Any], Tout: Any, f: Callable[..., Any], target: Any, name: str | None = None) -> Any:
    """What the function ``f`` makes of ``args`` on the device ``target``.

    Args:
        args: tensors.
        Tout: dtypes of the results.
        f: a function made by ``tf.Defun``.
        target: name of a device, or a tensor whose value is known while the graph is built.
        name: name scope.
    """
    known = tf.contrib.util.constant_value(target) if isinstance(target, tf.Tensor) else target
    if known is None:
        raise NotImplementedError(
            errors.message("remote_call to a device that a step computes", "a device name", "target='/device:CPU:0'")
        )
    device = tf.compat.as_str_any(known if isinstance(known, (str, bytes)) else known.item())
    with tf.name_scope(name, "remote_call", list(args)), tf.device(device):
        results = _listed(f(*args))
    kinds = [tf.as_dtype(one).base_dtype for one in (Tout if isinstance(Tout, (list, tuple)) else [Tout])]
    if [one.dtype.base_dtype for one in results] != kinds:
        raise TypeError(
            errors.message(
                f"a function that gives {[one.dtype.name for one in results]}", f"{[k.name for k in kinds]}", "Tout"
            )
        )
    return results


# ----------------------------------------------------------------------------------------------------------- gradients
def Gradient(inputs: Sequence[Any], f: Callable[..., Any], name: str | None = None) -> list[Any]:
    """The gradients of a function's arguments, of the shapes of the arguments.

    Args:
        inputs: the arguments of ``f``, then the gradients of its results.
        f: a function made by ``tf.Defun``.
        name: name scope.
    """
    tensors = [tf.convert_to_tensor(one) for one in inputs]
    with tf.name_scope(name, "SymbolicGradient", tensors):
        declared = getattr(f, "declared_input_types", None)
        count = len(declared) if declared is not None else len(tensors) // 2
        arguments = [tf.identity(one) for one in tensors[:count]]
        results = _listed(f(*arguments))
        if count + len(results) != len(tensors):
            raise ValueError(
                errors.message(
                    f"{len(tensors)} inputs for a function of {count} arguments and {len(results)} results",
                    f"{count + len(results)} inputs: the arguments, and a gradient for each result",
                    "functional_ops.Gradient([x, dy], f)",
                )
            )
        slopes = tf.gradients(results, arguments, grad_ys=tensors[count:])
        return [
            tf.zeros_like(one) if slope is None else tf.convert_to_tensor(slope)
            for one, slope in zip(arguments, slopes, strict=True)
        ]


def symbolic_gradient(input: Sequence[Any], Tout: Sequence[Any], f: Callable[..., Any], name: str | None = None) -> Any:
    """Like :func:`Gradient`; ``Tout`` are the dtypes of the gradients."""
    slopes = Gradient(input, f, name)
    wanted = [tf.as_dtype(kind).base_dtype for kind in Tout]
    if [slope.dtype.base_dtype for slope in slopes] != wanted:
        given = [slope.dtype.name for slope in slopes]
        raise TypeError(errors.message(f"gradients of {given}", f"{[kind.name for kind in wanted]}", f"Tout={given}"))
    return slopes


_symbolic_gradient = symbolic_gradient


# ------------------------------------------------------------------------------------------- functions of a definition
def _from_definition(fdef: Any, grad_func: Any = None) -> Any:
    """A function of graphs that does what a FunctionDef says.

    Args:
        fdef: the FunctionDef; functions that it calls must be known where it is called.
        grad_func: a function made by ``tf.Defun`` that is its gradient.
    """
    own = graph_pb2.FunctionDef.FromString(fdef.SerializeToString())
    signature = own.signature

    def body(*arguments: Any) -> Any:
        graph_def = graph_pb2.GraphDef()
        graph_def.versions.producer = 26
        graph_def.library.function.add().CopyFrom(own)
        names = []
        for argument, spec in zip(arguments, signature.input_arg, strict=True):
            node = graph_def.node.add(name=f"{spec.name}_given", op="Placeholder")
            node.attr["dtype"].type = argument.dtype.base_dtype.as_datatype_enum
            names.append(node.name)
        graph_def.node.add(name="call", op=signature.name, input=names)
        results = tf.import_graph_def(
            graph_def,
            dict(zip(names, arguments, strict=True)),
            [f"call:{i}" for i in range(len(signature.output_arg))],
            name="",
        )
        return tuple(results)

    types = [spec.type for spec in signature.input_arg]
    return tf.Defun(*types, func_name=signature.name, grad_func=grad_func)(body)


def _from_library(lib: Any) -> Any:
    """The functions of a FunctionDefLibrary, each with its gradient if that is there."""
    definitions = {fdef.signature.name: fdef for fdef in lib.function}
    gradient_of = {pair.function_name: pair.gradient_func for pair in lib.gradient}
    made: dict[str, Any] = {}

    def make(name: str) -> Any:
        if name not in made:
            gradient = gradient_of.get(name)
            if gradient is not None and gradient not in definitions:
                raise ValueError(
                    f"FunctionDefLibrary missing '{gradient}' FunctionDef\n"
                    + errors.message(f"{gradient!r} as the gradient of {name!r}", "a function of the library", "add it")
                )
            made[name] = _from_definition(definitions[name], None if gradient is None else make(gradient))
        return made[name]

    for name in gradient_of:
        if name not in definitions:
            raise ValueError(
                f"FunctionDefLibrary missing '{name}' FunctionDef\n"
                + errors.message(f"a gradient of {name!r}", "a function of the library", "add it")
            )
    return [make(name) for name in definitions]


def _parse_kwargs_as_attrs(func_name: str, **kwargs: Any) -> dict[str, Any]:
    """The attributes that ``noinline=``, ``compiled=`` and ``separate_compiled_gradients=`` of a function stand for."""
    attrs = {}
    noinline = kwargs.pop("noinline", None)
    if noinline is not None:
        attrs["_noinline"] = tf.AttrValue(b=bool(noinline))
    compiled, separate = kwargs.pop("compiled", None), kwargs.pop("separate_compiled_gradients", None)
    if compiled is not None:
        attrs["_XlaCompile"] = tf.AttrValue(b=bool(compiled))
        attrs["_XlaSeparateCompiledGradients"] = tf.AttrValue(b=bool(separate))
        attrs["_XlaScope"] = tf.AttrValue(s=f"function_{func_name}".encode())
    if kwargs:
        raise ValueError(
            f"Unknown keyword arguments: {kwargs.keys()}\n"
            + errors.message(f"{', '.join(kwargs)}=", "noinline, compiled or separate_compiled_gradients", "noinline=")
        )
    return attrs


# ------------------------------------------------------------------------------- functions whose body is being built
def _captured() -> dict[Any, Any]:
    body = tf.get_default_graph().current_body
    return {} if body.is_root else body.captures


def get_extra_inputs() -> list[Any]:
    """The tensors of the graph around it that the function which is being built has used so far."""
    return list(_captured())


def get_extra_args() -> list[Any]:
    """The arguments that stand for them in the function."""
    return list(_captured().values())


def get_extra_vars() -> list[Any]:
    """The variables of the graph around it that the function which is being built has used so far."""
    used = set(_captured())
    parts = ("_variable", "_snapshot", "_handle")
    return [v for v in tf.global_variables() if used & {getattr(v, part, None) for part in parts}]
