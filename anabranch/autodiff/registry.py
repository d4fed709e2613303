"""Which rule differentiates an op: the user's for this op, the user's for its type, or the one of its contract.

An op made under ``gradient_override_map`` carries the name of its rule in the attribute ``_gradient_op_type``; any
other op is looked up by its type. A name means, in this order: a rule that belongs to one op alone
(``custom_gradient``), one that the program registered, or the gradient of the op type of that name, which lets
``{"Relu": "Identity"}`` borrow the rule of another type.
"""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anabranch.autodiff.derived import derived_gradient
from anabranch.core import errors
from anabranch.core.contract import hooks, opdef
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder

F = TypeVar("F", bound=Callable[..., Any])

OVERRIDE = "_gradient_op_type"
"""Attribute that names the rule of one op."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule and where it comes from. ``function`` is None when no gradient flows through the op."""

    name: str
    function: Callable[..., Any] | None
    of_user: bool

    @property
    def label(self) -> str:
        """How messages name the rule."""
        if not self.of_user:
            return f"the gradient rule of op type {self.name!r}"
        code = getattr(self.function, "__code__", None)
        place = f' (File "{code.co_filename}", line {code.co_firstlineno})' if code is not None else ""
        return f"the gradient rule registered as {self.name!r}{place}"


_registered: dict[str, Rule] = {}
# Rules of single ops live as long as a graph that holds such an op: the op keeps the function, this table only finds
# it.
_single: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_counter = itertools.count(1)


def _register(name: Any, function: Callable[..., Any] | None) -> None:
    if not isinstance(name, str):
        raise TypeError(
            "op_type must be a string\n"
            + errors.message(f"op_type {name!r}", "the name of an op type or of a gradient", 'RegisterGradient("MyOp")')
        )
    definition = opdef.find(name)
    own = definition is not None and definition.gradient is not opdef.DERIVED
    if own or name in _registered:
        previous = "the op's own definition" if own else _registered[name].label
        raise KeyError(
            f"Registering two gradient with name '{name}'! (Previous registration was in {previous})\n"
            + errors.message(
                f"a second gradient named {name!r}",
                "one gradient for each name",
                f'a name of its own, and `with graph.gradient_override_map({{"{name}": "My{name}"}}):` around the ops',
            )
        )
    _registered[name] = Rule(name, function, True)


@public("RegisterGradient")
class RegisterGradient:
    """Decorator that registers the gradient of an op type, or a rule for ``Graph.gradient_override_map``.

    The function takes the op (``op.inputs``, ``op.outputs``, ``op.get_attr(name)``) and one gradient for each output,
    and returns one for each input: a tensor, `IndexedSlices`, or None.

    Raises:
        TypeError: ``op_type`` is no string. KeyError: there is a gradient of that name.

    Example:
        >>> import anabranch as tf
        >>> @tf.RegisterGradient("GradientReversal")
        ... def _reversed(op, grad):
        ...     return -grad
        >>> with tf.Graph().as_default() as g, g.gradient_override_map({"Identity": "GradientReversal"}):
        ...     y = tf.identity(tf.constant(2.0))
        >>> y.op.get_attr("_gradient_op_type")
        b'GradientReversal'
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            _register(op_type, None)  # raises
        self._op_type = op_type

    def __call__(self, f: F) -> F:
        if not callable(f):
            raise TypeError(
                errors.message(f"the gradient {f!r}", "a function of op and gradients", "def rule(op, grad): ...")
            )
        _register(self._op_type, f)
        return f


@public("NotDifferentiable", "NoGradient", "no_gradient")
def NotDifferentiable(op_type: str) -> None:
    """States that no gradient flows through ops of the type ``op_type``.

    Raises:
        TypeError: ``op_type`` is no string. KeyError: there is a gradient of that name.
    """
    _register(op_type, None)


def attach(op: Any, name: str, function: Callable[..., Any]) -> None:
    """Make ``function`` the rule of ``op`` alone; its graph keeps it alive. The op must carry ``name`` as its
    override.
    """
    op._gradient_function = function
    _single[name] = function


def unique_name(prefix: str) -> str:
    """A name for a rule that :func:`attach` gives to one op."""
    return f"{prefix}-{next(_counter)}"


def _override_of(op: Any) -> Any:
    attrs = getattr(op, "_attrs", None)
    if attrs is not None and OVERRIDE not in attrs:
        return None  # asking by get_attr would format an error for each op
    try:
        return op.get_attr(OVERRIDE)
    except ValueError:
        return None


def with_gradient(make: Callable[[], Any], op_type: str, function: Callable[..., Any]) -> Any:
    """The op of type ``op_type`` that ``make()`` makes, with ``function`` as its rule."""
    name = unique_name("Gradient")
    with current_builder().gradient_override_map({op_type: name}):
        op = make()
    attach(op, name, function)
    return op


hooks.fill("with_gradient", with_gradient)


def own_rule(definition: Any) -> Rule:
    """The rule that an op's own definition gives."""
    gradient = definition.gradient
    if isinstance(gradient, opdef.NotDifferentiable):
        return Rule(definition.type_name, None, False)
    return Rule(definition.type_name, derived_gradient if gradient is opdef.DERIVED else gradient, False)


def rule_of(op: Any) -> Rule:
    """The rule that differentiates ``op``.

    Raises:
        LookupError: there is none.
    """
    override = _override_of(op)
    if isinstance(override, bytes):  # from a file, and no UTF-8
        override = override.decode("utf-8", "replace")
    name = op.type if override is None else str(override)
    single = getattr(op, "_gradient_function", None) or _single.get(name)
    if single is not None:
        return Rule(name, single, True)
    rule = _registered.get(name)
    if rule is not None:
        return rule
    definition = opdef.find(name)
    if definition is not None:
        return own_rule(definition)
    raise LookupError(
        f"No gradient defined for operation '{op.name}' (op type: {op.type})\n"
        + errors.message(
            f"op {op.name!r} whose gradient is named {name!r}",
            "the name of an op type or of a registered gradient",
            f'@tf.RegisterGradient("{name}") above a function of op and gradients, or tf.stop_gradient(x) to treat its '
            "value as a constant",
            at=getattr(op, "user_site", None),
        )
    )


def get_gradient_function(op: Any) -> Callable[..., Any] | None:
    """The function that differentiates ``op``; None if it has no inputs or no gradient flows through it."""
    return rule_of(op).function if op.inputs else None


def call(rule: Rule, op: Any, grads: Sequence[Any]) -> Any:
    """Apply a rule; an exception gets a note that says for which op, and where that op was made."""
    assert rule.function is not None
    try:
        return rule.function(op, *grads)
    except Exception as problem:
        site = getattr(op, "user_site", None)
        problem.add_note(
            f"In {rule.label}, for op {op.name!r} of type {op.type!r}" + (f" made at\n  {site}" if site else "")
        )
        raise
