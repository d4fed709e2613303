"""Checks of values: ``Assert``, ``CheckNumerics``, and the functions over them.

A check is a function of its inputs that fails: it has no state, may run in either tier and inside a compiled program,
where it is one flag. What a failed assertion shows of its data is kept with the program's flags; strings are known
while the program is compiled and stay with the plan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder, require_graph
from anabranch.core.graph.convert import convert_n_to_tensor, convert_to_tensor
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.ops.control.public_dependencies import group, with_dependencies
from anabranch.ops.shared.unchecked import Changed


def _holds(operands: Any, attrs: Any) -> Any:
    """The form of an assertion: the kernel is asked where it does not hold."""

    def hold(condition: Any, *data: Any) -> Any:
        if condition.ndim or not condition:
            raise Changed
        return ()

    return hold


class Assert(Op):
    """Fail with InvalidArgumentError unless ``condition`` (a scalar) holds; the error shows ``data``."""

    signature = "condition: bool, data: [T] ->"
    attrs = {"T": List("type", minimum=1), "summarize": Int(3)}
    effect = PURE
    gradient = NotDifferentiable("it has no outputs")
    any_size = _holds

    def shape(c):
        return []

    def kernel(ctx, inputs, attrs):
        condition, *data = inputs
        if ctx.host and type(condition) is np.ndarray and not condition.ndim and condition:
            return ()
        given = list(np.shape(condition))
        ctx.check(not given, errors.InvalidArgumentError, f"In[0] should be a scalar: {given}")
        places = " ".join(f"{{{i}}}" if np.ndim(value) else f"[{{{i}}}]" for i, value in enumerate(data))
        ctx.check(
            ctx.xp.reshape(condition, ()),
            errors.InvalidArgumentError,
            f"assertion failed: {places}",
            *data,
            summarize=attrs["summarize"],
        )
        return ()


def _literal(text: str | bytes) -> str:
    """``text`` for a place in a format string."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return text.replace("{", "{{").replace("}", "}}")


def _numbers_gradient(op, grad):
    text = op.get_attr("message").decode("utf-8", "replace")
    return [
        build(
            "CheckNumerics", grad, message=f"Not a number (NaN) or infinity (Inf) values detected in gradient. {text}"
        )
    ]


class CheckNumerics(Op):
    """The input; fails with InvalidArgumentError if an element is NaN or infinite. The message begins with
    ``message``.
    """

    signature = "tensor: T -> output: T"
    attrs = {"T": Type("bfloat16 half float double"), "message": String()}
    effect = PURE
    passes = "tensor"
    shape = inference.unchanged
    gradient = _numbers_gradient

    def checks(ctx, inputs, attrs):
        (x,) = inputs
        nan, inf = ctx.xp.any(ctx.xp.isnan(x)), ctx.xp.any(ctx.xp.isinf(x))
        text = _literal(attrs["message"]) + " : Tensor had {} values"
        for bad, what in ((nan & inf, "Inf and NaN"), (inf, "Inf"), (nan, "NaN")):
            ctx.check(~bad, errors.InvalidArgumentError, text.replace("{}", what))

    def kernel(ctx, inputs, attrs):
        return inputs[0]


class CheckNumericsV2(Op):
    """Like ``CheckNumerics``, telling the signs of infinities."""

    signature = "tensor: T -> output: T"
    attrs = {"T": Type("bfloat16 half float double"), "message": String()}
    effect = PURE
    passes = "tensor"
    shape = inference.unchanged
    gradient = _numbers_gradient

    def checks(ctx, inputs, attrs):
        (x,) = inputs
        problems = [
            (ctx.xp.any(x == -np.inf), "-Inf"),
            (ctx.xp.any(x == np.inf), "+Inf"),
            (ctx.xp.any(ctx.xp.isnan(x)), "NaN"),
        ]
        text = _literal(attrs["message"]) + " : Tensor had {} values"
        for mask in sorted(range(1, 8), key=lambda bits: -bits.bit_count()):
            present = [pair for i, pair in enumerate(problems) if mask >> i & 1]
            bad = present[0][0]
            for other, _ in present[1:]:
                bad = bad & other
            names = [name for _, name in present]
            listed = " and ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + f", and {names[-1]}"
            ctx.check(~bad, errors.InvalidArgumentError, text.replace("{}", listed))

    def kernel(ctx, inputs, attrs):
        return inputs[0]


# ------------------------------------------------------------------------------------------------------------- public
@public("Assert", "debugging.Assert")
def assert_(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Operation:
    """An operation that fails with InvalidArgumentError, showing ``data``, if ``condition`` is false when it runs.

    Args:
        condition: bool scalar.
        data: list of tensors and strings to show.
        summarize: how many elements to show of each (3 if None, all if negative).
        name: name of the scope of the op.

    Example:
        >>> import anabranch as tf
        >>> x = tf.placeholder(tf.float32, [])
        >>> with tf.control_dependencies([tf.Assert(x > 0, ["x is not positive:", x])]):
        ...     y = tf.log(x)
        >>> with tf.Session() as session:
        ...     float(session.run(y, {x: 1.0}))
        0.0
    """
    if not isinstance(data, (list, tuple)):
        raise TypeError(
            errors.message(f"{type(data).__name__} as the data of tf.Assert", "a list", "tf.Assert(condition, [data])")
        )
    with name_scope(name, "Assert", [condition, *data]):
        # TensorFlow converts the data twice. The number of ops before a random one is its seed in a graph that has one.
        shown = convert_n_to_tensor(data)
        if any(item.dtype.base not in (dtypes.string, dtypes.int32) for item in shown):
            count_more(9 + sum(isinstance(item, Tensor) for item in data))  # TensorFlow shows it in a branch
        return build("Assert", condition, list(data), summarize=3 if summarize is None else summarize, name="Assert")


@public("check_numerics", "debugging.check_numerics")
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """``tensor``; running it fails with InvalidArgumentError if an element is NaN or infinite.

    Args:
        tensor: a floating-point tensor.
        message: what the error's text begins with.
        name: name of the op.
    """
    return build("CheckNumerics", tensor, message=message, name=name)


@public("verify_tensor_all_finite", "debugging.assert_all_finite")
def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """``t`` (also called ``x``), available only if all its elements are finite; ``msg`` begins the error's text."""
    tensor, text = t if t is not None else x, msg if msg is not None else message
    if tensor is None or text is None or (t is not None and x is not None) or (msg is not None and message is not None):
        raise ValueError(
            errors.message(
                "verify_tensor_all_finite without a tensor or a message, or with one of them twice",
                "one tensor and one message",
                "tf.verify_tensor_all_finite(t, msg)",
            )
        )
    with name_scope(name, "VerifyFinite", [tensor]):
        tensor = convert_to_tensor(tensor, name="t")
        with current_builder().colocate_with(tensor):
            checked = check_numerics(tensor, text)
            return with_dependencies([checked], tensor)


@public("add_check_numerics_ops")
def add_check_numerics_ops() -> Operation:
    """An operation that checks every floating-point tensor made so far, in order, for NaN and infinity.

    Raises:
        ValueError: the graph holds conditionals or loops, whose tensors cannot be reached from outside them.
    """
    require_graph(
        "add_check_numerics_ops() is not compatible with eager execution. To check for Inf's and NaN's under eager "
        "execution, call tfe.seterr(inf_or_nan='raise') once before executing the checked operations.",
        "tf.add_check_numerics_ops",
        "tf.contrib.eager.seterr(inf_or_nan='raise')",
    )
    checks: list[Tensor] = []
    graph = get_default_graph()
    for op in graph.get_operations():
        if not op.body.is_root:
            raise ValueError(
                "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such as "
                "`tf.cond()` or `tf.while_loop()`.\n"
                + errors.message(
                    f"operation {op.name!r} inside {op.body.name!r}",
                    "a graph without conditionals and loops",
                    "tf.check_numerics on the tensors that matter",
                )
            )
        for output in op.outputs:
            if output.dtype in (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16):
                with graph.control_dependencies(checks):
                    checks = [check_numerics(output, f"{op.name}:{output.value_index}")]
    return group(*checks)
