"""Conditionals: ``tf.cond``, ``tf.case``, ``tf.switch_case``.

Each function of a branch is called once, while the graph is built; only the ops of the branch that is taken run, and of
these only what the results need. What the functions return must have one form in all branches. The ops are those of
:mod:`anabranch.ops.control.functional`.
"""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.graph import body_ops, composites
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import OperationCount, count_more, counted_as, in_function
from anabranch.core.values import dtypes, nest
from anabranch.ops.control.bodies import (
    Built,
    as_output,
    build_branch,
    call_site,
    kind_names,
    kinds,
    map_leaves,
    named_output,
    told,
    unpack_singleton,
)

Branch = Callable[[], Any]
_SWITCHES = 4
"""Operations that TensorFlow makes of a condition before the branches; what a branch captures is one more each."""


@public("cond")
def cond(
    pred: Any,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Branch | None = None,
    fn2: Branch | None = None,
) -> Any:
    """What ``true_fn()`` returns if ``pred`` holds, otherwise what ``false_fn()`` returns.

    Args:
        pred: boolean scalar; where ops run at once anything that Python takes for true or false.
        true_fn: function without arguments that returns tensors, operations, None, sparse tensors, IndexedSlices, or
            structures of them. An operation becomes a boolean that is there once the operation has run: whether
            ``pred`` holds.
        false_fn: function that returns a structure of the same form with tensors of the same dtypes.
        strict: keep a list or tuple of one element; otherwise the element itself is returned.
        name: name of the op, and of the scope of the branches' ops.
        fn1: old name of ``true_fn``.
        fn2: old name of ``false_fn``.

    Raises:
        TypeError: ``pred`` is a Python bool or not a boolean in a graph, a branch is not a function, or their results
            differ in type.
        ValueError: results differ in structure, dtype, or there are none.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     x = tf.placeholder(tf.float32, [])
        ...     y = tf.cond(x > 0.0, lambda: x, lambda: -x)
        ...     session.run(y, {x: -2.0})
        2.0
    """
    true_fn = _one_spelling(true_fn, fn1, "true_fn", "fn1")
    false_fn = _one_spelling(false_fn, fn2, "false_fn", "fn2")
    site = call_site()
    if not current_builder().defers and not (isinstance(pred, Tensor) and not pred.has_value):
        with name_scope(name, "cond", [pred]):
            result = (true_fn if pred else false_fn)()
            return result if strict else unpack_singleton(result)
    if isinstance(pred, bool):
        raise TypeError(
            "pred must not be a Python bool\n"
            + errors.message(
                f"tf.cond({pred!r}, ...)",
                "a boolean tensor: a Python bool is known while the graph is built",
                "true_fn() if pred else false_fn(), or tf.constant(pred)",
                at=site,
            )
        )
    with name_scope(name, "cond", [pred]) as scope:
        pred = _predicate(pred, "pred", site)
        graph = get_default_graph()
        counted = OperationCount()
        comes_in = pred.op.body is not graph.current_body and pred not in graph.current_body.captures
        count_more(_SWITCHES + comes_in)
        taken = build_branch(graph, true_fn, "true", "true_fn", site)
        other = build_branch(graph, false_fn, "false", "false_fn", site, done=False)
        with counted_as(len(taken.body.outputs), captures=False):  # TensorFlow merges each
            given = _conditional(
                [taken, other], ["true_fn", "false_fn"], [true_fn, false_fn], strict, scope, site, pred
            )
        if in_function():
            counted.set(1 + len(taken.body.outputs))
        return given


def _one_spelling(value: Any, old: Any, name: str, old_name: str) -> Any:
    if old is not None:
        if value is not None:
            raise TypeError(
                f"{name} and {old_name} may not be set simultaneously.\n"
                + errors.message(
                    f"{name}= and {old_name}=", "one of the two arguments, which mean the same", f"{name}="
                )
            )
        value = old
    if value is None:
        raise TypeError(
            f"cond(): {name} argument required\n"
            + errors.message(f"tf.cond without {name}", "a function for each branch", f"{name}=lambda: tf.no_op()")
        )
    if not callable(value):
        raise TypeError(
            f"{name} must be callable.\n"
            + errors.message(f"{name}={value!r}", "a function without arguments", f"{name}=lambda: value")
        )
    return value


def _predicate(pred: Any, what: str, site: Any) -> Tensor:
    tensor = convert_to_tensor(pred, name=what)
    if tensor.dtype.base is not dtypes.bool_:
        raise TypeError(
            errors.message(
                f"{what} {tensor._label} of dtype {tensor.dtype.base.name}",
                "a boolean scalar",
                "tf.not_equal(x, 0), or tf.cast(x, tf.bool)",
                at=site,
            )
        )
    if tensor._shape is not None and tensor._shape != ():
        raise ValueError(
            f"{what} must be a scalar\n"
            + errors.message(
                f"{what} {tensor._label} of shape {tensor.get_shape()}",
                "a boolean scalar",
                "tf.reduce_all(x), or tf.where(x, a, b) to choose element by element",
                at=site,
            )
        )
    return tensor


def _conditional(
    built: Sequence[Built],
    roles: Sequence[str],
    functions: Sequence[Any],
    strict: bool,
    scope: str,
    site: Any,
    selector: Tensor,
) -> Any:
    """Check that branches agree, make the op, and pack its outputs."""
    if not strict:
        for branch in built:
            branch.result = unpack_singleton(branch.result)
    for i in range(1, len(built)):
        _check_same(built[0], built[i], (roles[0], roles[i]), (functions[0], functions[i]), site)
    first = built[0].body
    if not first.outputs:
        raise ValueError(
            f"{' and '.join(roles)} must return at least one result.\n"
            + errors.message(
                f"{roles[0]} {told(functions[0])} that returns {built[0].result!r}",
                "at least one tensor or operation",
                "return tf.no_op() in each branch",
                at=site,
            )
        )
    bodies = [branch.body for branch in built]
    captured = body_ops.line_up(bodies)
    stateless = "" if any(body_ops.is_stateful(body) for body in bodies) else "Stateless"
    types = [output.dtype.base for output in first.outputs]
    attrs: dict[str, Any] = {"Tout": types}
    if selector.dtype.base is dtypes.bool_:
        attrs |= {"then_branch": bodies[0], "else_branch": bodies[1]}
        op = build_operation(f"{stateless}If", [selector, captured], attrs, scope)
    else:
        attrs["branches"] = bodies
        op = build_operation(f"{stateless}Case", [selector, captured], attrs, scope)
    body_ops.own(op)
    own_name = "Merge" if selector.dtype.base is dtypes.bool_ else "indexed_case/Identity"
    outputs = [named_output(output, own_name, place) for place, output in enumerate(op._outputs)]
    packed = composites.pack(built[0].result, outputs)
    return packed if strict else unpack_singleton(packed)


def _check_same(first: Built, second: Built, roles: tuple[str, str], functions: tuple[Any, Any], site: Any) -> None:
    def refuse(kind: type[Exception], heading: str, what: str, expected: str, instead: str) -> Exception:
        at = f"{roles[0]} {told(functions[0])}\n{roles[1]} {told(functions[1])}\ncalled at {site}"
        return kind(f"{heading}\n" + errors.message(what, expected, instead, at=at))

    what = f"{first.result!r} from {roles[0]}, {second.result!r} from {roles[1]}"
    try:
        nest.assert_same_structure(first.result, second.result)
    except TypeError:
        raise refuse(
            TypeError,
            f"Incompatible return types of {roles[0]} and {roles[1]}",
            what,
            "structures of the same types",
            "return a list in both, or a tuple in both",
        ) from None
    except ValueError:
        raise refuse(
            ValueError,
            f"Incompatible return values of {roles[0]} and {roles[1]}",
            what,
            "as many values, in the same form, from each branch",
            "return a value for each of the other's, tf.zeros_like(...) where there is none",
        ) from None
    if kinds(first.result) != kinds(second.result):
        raise refuse(
            TypeError,
            f"Incompatible return types of {roles[0]} and {roles[1]}",
            f"{kind_names(first.result)} from {roles[0]}, {kind_names(second.result)} from {roles[1]}",
            "the same kinds of values from each branch",
            "tf.convert_to_tensor(x) for a dense tensor in both",
        )
    _one_index_type(first, second)
    ours = [output.dtype.base.name for output in first.body.outputs]
    theirs = [output.dtype.base.name for output in second.body.outputs]
    if ours != theirs:
        raise refuse(
            ValueError,
            f"Outputs of {roles[0]} and {roles[1]} must have the same type(s). Received {ours} from {roles[0]} and "
            f"{theirs} from {roles[1]}.",
            f"dtypes {ours} from {roles[0]}, {theirs} from {roles[1]}",
            "the same dtypes from each branch",
            "tf.cast(x, dtype) in one of them",
        )


def _one_index_type(first: Built, second: Built) -> None:
    """Where one branch returns slices with 32-bit and the other with 64-bit indices, both get 64 bits."""
    position = 0
    for leaf in nest.flatten(first.result):
        count = 0 if leaf is None else len(composites.parts(leaf))
        if isinstance(leaf, IndexedSlices):
            places = [position + 1] + ([position + 2] if count == 3 else [])
            for place in places:
                pair = (first.body, second.body)
                if len({body.outputs[place].dtype.base for body in pair}) == 2:
                    for body in pair:
                        output = body.outputs[place]
                        if output.dtype.base is dtypes.int32:
                            with body.graph.building(body):
                                body.outputs[place] = build("Cast", output, DstT=dtypes.int64)
        position += count


# ---------------------------------------------------------------------------------------------------------------- case
@public("case")
def case(
    pred_fn_pairs: Any,
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """What the function behind the first predicate that holds returns, or ``default()`` if none holds.

    Args:
        pred_fn_pairs: list of pairs of a boolean scalar and a function without arguments, or a dictionary of them. An
            unordered dictionary is tried in the order of the predicates' names; where ops run at once, it needs
            ``exclusive``.
        default: function for the case that no predicate holds; without it the step fails then.
        exclusive: the step fails if more than one predicate holds.
        strict: keep a list or tuple of one element; otherwise the element itself is returned.
        name: name scope.

    Raises:
        TypeError: the arguments are of the wrong kind. ValueError: there are no pairs, or results differ in form.
    """
    pairs = _case_pairs(pred_fn_pairs, exclusive, name)
    if default is not None and not callable(default):
        raise TypeError(
            "default must be callable.\n"
            + errors.message(f"default={default!r}", "a function without arguments", "default=lambda: value")
        )
    predicates = [pred for pred, _ in pairs]
    with name_scope(name, "case", predicates):
        if default is None:
            default = _checked_last(pairs)
            pairs = pairs[:-1]
        if exclusive:
            with current_builder().control_dependencies([_at_most_one(predicates)]):
                return _chained(pairs, default, strict)
        return _chained(pairs, default, strict)


def _case_pairs(given: Any, exclusive: bool, name: str) -> list[tuple[Any, Branch]]:
    if not isinstance(given, (list, tuple, dict)):
        raise TypeError(
            "fns must be a list, tuple, or dict\n"
            + errors.message(f"pred_fn_pairs={given!r}", "pairs of predicate and function", "[(x < y, f), (x > z, g)]")
        )
    if isinstance(given, dict):
        items = list(given.items())
        if not isinstance(given, collections.OrderedDict) and not current_builder().defers:
            if not exclusive:
                raise ValueError(
                    "Unordered dictionaries are not supported for the `pred_fn_pairs` argument when `exclusive=False` "
                    "and eager mode is enabled.\n"
                    + errors.message("a dictionary of pairs", "pairs in an order", "[(x < y, f), (x > z, g)]")
                )
        elif not isinstance(given, collections.OrderedDict):
            items.sort(key=lambda item: item[0].name)
            if not exclusive:
                warnings.warn(
                    f"{name}: the pairs came in a dictionary with exclusive=False; they are tried in the order of the "
                    "predicates' names. Pass a list of pairs to choose the order.",
                    stacklevel=4,
                )
    else:
        items = list(given)
    for pair in items:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                "Each entry in pred_fn_pairs must be a 2-tuple\n"
                + errors.message(f"the entry {pair!r}", "a pair (predicate, function)", "(x < y, lambda: value)")
            )
        pred, fn = pair
        if isinstance(pred, bool):
            raise TypeError(
                "pred must not be a Python bool\n"
                + errors.message(f"the predicate {pred!r}", "a boolean tensor", "tf.constant(pred)")
            )
        if getattr(pred, "dtype", None) not in (dtypes.bool_, dtypes.bool_._as_ref, np.dtype(bool)):
            raise TypeError(
                f"pred must be of type bool: {pred!r}\n"
                + errors.message(f"the predicate {pred!r}", "a boolean tensor", "tf.not_equal(x, 0)")
            )
        if not callable(fn):
            raise TypeError(
                f"fn for pred {pred!r} must be callable.\n"
                + errors.message(f"{fn!r} behind a predicate", "a function without arguments", "lambda: value")
            )
    if not items:
        raise ValueError(
            "Must have at least one pred_fn_pair\n"
            + errors.message(
                "no pairs",
                "at least one pair of a predicate and a function",
                "call the default function itself: default()",
            )
        )
    return items


def _checked_last(pairs: list[tuple[Any, Branch]]) -> Branch:
    """The last pair's function, behind a check that its predicate holds."""
    pred, fn = pairs[-1]

    def last() -> Any:
        names = _names([item for item, _ in pairs])
        check = build(
            "Assert",
            pred,
            [f"Input error: None of conditions evaluated as True. Conditions: ({names}), Values:"]
            + [convert_to_tensor(item) for item, _ in pairs],
            summarize=len(pairs),
        )
        with current_builder().control_dependencies([check]):
            return map_leaves(_behind, fn())

    return last


def _behind(leaf: Any) -> Any:
    """What a function returned, behind the control dependencies that hold here, also if it was there before."""
    value = as_output(leaf)
    if value is None:
        return None
    return composites.rebuilt(value, [build("Identity", part) for part in composites.parts(value)])


def _names(predicates: Sequence[Any]) -> str:
    """Names of predicates; a tensor that has its value already has none."""
    if not current_builder().defers:
        return ", ".join("?" for _ in predicates)
    return ", ".join(getattr(item, "name", repr(item)) for item in predicates)


def _at_most_one(predicates: Sequence[Any]) -> Any:
    tensors = [convert_to_tensor(pred) for pred in predicates]
    with counted_as(19):  # an assertion in a conditional
        count = build("Sum", build("Cast", build("Pack", tensors), DstT=dtypes.int32), 0)
        names = _names(tensors)
        text = f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:"
        return build("Assert", build("Less", count, 2), [text, build("Pack", tensors)], summarize=len(tensors))


def _chained(pairs: list[tuple[Any, Branch]], default: Branch, strict: bool) -> Any:
    function = default
    for pred, fn in reversed(pairs):
        function = _cond_of(pred, fn, function, strict)
    return function()


def _cond_of(pred: Any, fn: Branch, other: Branch, strict: bool) -> Branch:
    return lambda: cond(pred, fn, other, strict=strict)


# --------------------------------------------------------------------------------------------------------- switch_case
@public("switch_case")
def switch_case(branch_index: Any, branch_fns: Any, default: Branch | None = None, name: str = "switch_case") -> Any:
    """What the function number ``branch_index`` returns.

    Args:
        branch_index: int32 scalar.
        branch_fns: list of functions without arguments, or a dictionary or list of pairs from numbers to functions.
        default: function for an index that is none of the numbers; without it the one of the largest number.
        name: name of the op, and of the scope of the branches' ops.

    Raises:
        TypeError: the arguments are of the wrong kind. ValueError: numbers are missing, or results differ in form.
    """
    functions = _numbered(branch_fns)
    site = call_site()
    if default is not None:
        if not callable(default):
            raise TypeError(
                "default must be callable.\n"
                + errors.message(f"default={default!r}", "a function without arguments", "default=lambda: value")
            )
        functions.append(default)
    roles = [f"branch {i}" for i in range(len(functions))]
    with name_scope(name, "switch_case", [branch_index]) as scope:
        index = convert_to_tensor(branch_index, name="branch_index")
        if index.dtype.base is not dtypes.int32:
            raise TypeError(
                errors.message(
                    f"branch_index of dtype {index.dtype.base.name}",
                    "an int32 scalar",
                    "tf.cast(branch_index, tf.int32)",
                    at=site,
                )
            )
        if not current_builder().defers:
            number = int(inference.partial_value(index))
            return functions[number if 0 <= number < len(functions) else -1]()
        graph = get_default_graph()
        built = [build_branch(graph, fn, f"branch{i}", roles[i], site) for i, fn in enumerate(functions)]
        return _conditional(built, roles, functions, True, scope, site, index)


def _numbered(given: Any) -> list[Branch]:
    if not isinstance(given, (list, tuple, dict)):
        raise TypeError(
            "branch_fns must be a list, tuple, or dict\n"
            + errors.message(f"branch_fns={given!r}", "functions without arguments", "[lambda: a, lambda: b]")
        )
    items = list(given.items()) if isinstance(given, dict) else list(given)
    if not items:
        raise ValueError(
            "Must provide at least one item in branch_fns\n"
            + errors.message("no branches", "at least one function", "[lambda: value]")
        )
    if not isinstance(given, dict) and all(callable(item) for item in items):
        items = list(enumerate(items))
    for item in items:
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeError(
                "Each entry in branch_fns must be a 2-tuple\n"
                + errors.message(f"the entry {item!r}", "a pair (number, function)", "(0, lambda: value)")
            )
        if not isinstance(item[0], (int, np.integer)) or isinstance(item[0], bool):
            raise TypeError(
                "key must be a Python `int`\n"
                + errors.message(f"the number {item[0]!r}", "an int", "(0, lambda: value)")
            )
        if not callable(item[1]):
            raise TypeError(
                f"fn for key {item[0]} must be callable.\n"
                + errors.message(f"{item[1]!r} behind {item[0]}", "a function without arguments", "lambda: value")
            )
    numbers = sorted(int(key) for key, _ in items)
    if numbers != list(range(len(items))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(items)}) but found "
            f"{{{','.join(map(str, numbers))}}}\n"
            + errors.message(f"branches {numbers}", f"{list(range(len(items)))}", "default= for all other indices")
        )
    return [fn for _, fn in sorted(items, key=lambda item: item[0])]


# ---------------------------------------------------------------------------------------------------------- smart_cond
@public("contrib.framework.smart_cond")
def smart_cond(
    pred: Any, true_fn: Branch | None = None, false_fn: Branch | None = None, name: str | None = None
) -> Any:
    """Like ``tf.cond``, but only the branch that is known to be taken is built, if that is known.

    Args:
        pred: boolean scalar tensor, or a Python bool, or 0 or 1.
        true_fn: function for a predicate that holds.
        false_fn: function for one that does not.
        name: name of the conditional, if one is needed.
    """
    for role, fn in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(fn):
            raise TypeError(
                f"`{role}` must be callable.\n"
                + errors.message(f"{role}={fn!r}", "a function without arguments", f"{role}=lambda: value")
            )
    value = smart_constant_value(pred)
    if value is None:
        return cond(pred, true_fn, false_fn, name=name)
    assert true_fn is not None
    assert false_fn is not None
    return true_fn() if value else false_fn()


@public("contrib.framework.smart_constant_value")
def smart_constant_value(pred: Any) -> bool | None:
    """The value of a predicate if it is known while the graph is built, otherwise None."""
    if isinstance(pred, (bool, np.bool_)):
        return bool(pred)
    if isinstance(pred, (int, np.integer)) and pred in (0, 1):
        return bool(pred)
    if isinstance(pred, Tensor):
        known = inference.partial_value(pred)
        return bool(known.item()) if isinstance(known, np.ndarray) and known.size == 1 else None
    if hasattr(pred, "dtype"):  # variables
        return None
    raise TypeError(
        f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {type(pred)}\n"
        + errors.message(f"pred={pred!r}", "a boolean", "tf.equal(x, y)")
    )


__all__ = ["case", "cond", "smart_cond", "switch_case"]
