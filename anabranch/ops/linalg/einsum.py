"""Sums of products by labels: `Einsum`, `tf.einsum` and `tf.tensordot`.

Policy. The op takes any number of operands, an ellipsis that broadcasts, and labels that repeat in an operand (its
diagonal) or in the output (a diagonal is filled). `tf.einsum` contracts more than two operands pairwise in a cheap
order, so that each node is one that TensorFlow runs too.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Cost, Int, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.values import dtypes, shapes
from anabranch.ops.linalg.matmul import conjugate, matmul
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.array_rules import dense, known, refuse, require, shape_of
from anabranch.ops.shared.broadcast_gradients import reduce_to_shape_of
from anabranch.ops.shared.widening import is_half

_DOTS = "..."


# ----------------------------------------------------------------------------------------------------------- equations
def _labels(term: str) -> tuple[str, ...]:
    """The labels of one operand, with the ellipsis as one item."""
    labels = tuple(re.findall(r"\.\.\.|[A-Za-z]", term))
    if "".join(labels) != term or labels.count(_DOTS) > 1:
        raise ValueError(
            errors.message(f"{term!r} in an einsum equation", "letters and at most one '...'", "write it like 'a...b'")
        )
    return labels


def parse(equation: str | bytes) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of the operands and of the output of an equation with ``->``."""
    text = (equation.decode() if isinstance(equation, bytes) else equation).replace(" ", "")
    left, arrow, right = text.partition("->")
    if not arrow or "->" in right:
        raise ValueError(
            f"Expecting exactly one '->' in einsum equation: {text}\n"
            + errors.message(f"the equation {text!r}", "'inputs->output'", "add '->' and the labels of the output")
        )
    inputs = [_labels(term) for term in left.split(",")]
    output = _labels(right)
    present = {label for labels in inputs for label in labels}
    for label in output:
        if label not in present and label != _DOTS:
            raise ValueError(
                f"Einsum output subscripts for equation '{text}' has label '{label}' which is not present in the input "
                "subscripts\n"
                + errors.message(f"output label {label!r}", f"one of {sorted(present)}", "remove it from the output")
            )
    return inputs, output


def _text(inputs: Any, output: Any) -> str:
    return ",".join("".join(labels) for labels in inputs) + "->" + "".join(output)


def _sizes(inputs: list[tuple[str, ...]], raws: list[Any], equation: str) -> tuple[dict[str, int | None], Any]:
    """Sizes by label and the broadcast shape of the ellipses, of shapes (None: unknown rank)."""
    sizes: dict[str, int | None] = {}
    dots: Any = ()
    for i, (labels, raw) in enumerate(zip(inputs, raws, strict=True)):
        if raw is None:
            dots = None if _DOTS in labels else dots
            for label in labels:
                sizes.setdefault(label, None)
            continue
        named = len(labels) - (_DOTS in labels)
        if len(raw) < named or (len(raw) > named and _DOTS not in labels):
            raise ValueError(
                errors.message(
                    f"operand {i} of shape {shapes.show(raw)} for {''.join(labels)!r} in {equation!r}",
                    f"rank {named}{' or more' if _DOTS in labels else ''}",
                    "one label for each dimension, or '...'",
                )
            )
        extra = len(raw) - named
        at = labels.index(_DOTS) if _DOTS in labels else len(labels)
        if extra and dots is not None:
            dots = shapes.broadcast(dots, raw[at : at + extra])
        flat = raw[:at] + raw[at + extra :]
        for label, size in zip((item for item in labels if item != _DOTS), flat, strict=True):
            try:
                sizes[label] = shapes.merge_dim(sizes.get(label), size)
            except ValueError:
                raise ValueError(
                    f"Dimensions must be equal, but are {sizes[label]} and {size}\n"
                    + errors.message(
                        f"label {label!r} of {equation!r} with the sizes {sizes[label]} and {size}",
                        "one size for each label",
                        "check the order of the labels",
                    )
                ) from None
    return sizes, dots


class _Form(NamedTuple):
    """What an equation says for operands of certain shapes."""

    text: str
    once: tuple[str, ...]
    """The labels of what the array library gives: each once."""
    output: tuple[str, ...]
    sums_ellipsis: bool
    """Whether the output leaves an ellipsis out: it is summed over. The array libraries want it in the output first."""
    is_direct: bool
    """Whether the host computes it as it stands, in one loop over all labels, and not by products of matrices."""


@functools.lru_cache(1024)
def _form(equation: str | bytes, operands: tuple[tuple[int, ...], ...]) -> _Form:
    """The form of an equation, checked.

    Raises:
        ValueError: a rank or size does not fit.
    """
    terms, output = parse(equation)
    for labels, shape in zip(terms, operands, strict=True):
        named = len(labels) - (_DOTS in labels)
        if not (len(shape) == named or (_DOTS in labels and len(shape) > named)):
            text = "".join(labels)
            raise ValueError(f"Expected input of rank {named} for the labels {text}, got rank {len(shape)}")
    sizes, dots = _sizes(terms, list(operands), str(equation))
    sums_ellipsis = _DOTS not in output and any(_DOTS in labels for labels in terms)
    full = (_DOTS, *output) if sums_ellipsis else output
    once = tuple(dict.fromkeys(full))
    products = math.prod(size or 0 for size in (*sizes.values(), *dots))
    is_direct = products <= _FEW_PRODUCTS or set(sizes) <= set(full)
    return _Form(_text(terms, once), once, output, sums_ellipsis, is_direct)


_FEW_PRODUCTS = 1 << 13
"""Products of elements up to which one loop takes less time than to arrange matrices for BLAS."""


# ------------------------------------------------------------------------------------------------------------------ op
class Einsum(Op):
    """Sum of products of the elements of `N` tensors, paired by the labels of `equation` (`"ij,jk->ik"`)."""

    signature = "inputs: N * T -> output: T"
    attrs = {"equation": String(), "N": Int(minimum=1), "T": Type()}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        inputs, output = parse(c.attrs["equation"])
        if len(inputs) != c.attrs["N"]:
            refuse(
                c,
                f"{c.attrs['N']} tensors for the equation {c.attrs['equation']!r}",
                f"{len(inputs)}, one for each list of labels",
                "add or remove one",
            )
        sizes, dots = _sizes(inputs, c.shapes, c.attrs["equation"])
        if _DOTS in output and dots is None:
            return None
        dims: tuple[int | None, ...] = ()
        for label in output:
            dims += dots if label == _DOTS else (sizes[label],)
        return dims

    def kernel(ctx, inputs, attrs):
        try:
            form = _form(attrs["equation"], tuple([tuple(x.shape) for x in inputs]))
        except ValueError as problem:
            require(ctx, False, str(problem).replace("{", "{{").replace("}", "}}"))
            raise
        result = _contract(ctx, form, inputs)
        once = form.once
        if form.sums_ellipsis:
            gone = result.ndim - len(once) + 1
            result = ctx.xp.sum(result, axis=tuple(range(gone)), dtype=result.dtype)
            once = once[1:]
        return _fill_diagonals(ctx.xp, result, once, form.output)

    def gradient(op, grad):
        terms, output = parse(op.get_attr("equation"))
        grad = dense(grad)
        return [_operand_gradient(op, grad, i, terms, output) for i in range(len(terms))]


@host_blas.on_one_thread(lambda equation, *inputs: math.prod(max(x.size, 1) ** 0.75 for x in inputs))
def _host_contract(equation: str, *inputs: np.ndarray) -> np.ndarray:
    return np.einsum(equation, *inputs, optimize="greedy")


def _contract(ctx: Any, form: _Form, inputs: Any) -> Any:
    dtype = inputs[0].dtype
    if ctx.host:
        contract = np.einsum if form.is_direct else _host_contract
        wide = [x.astype(np.float32) for x in inputs] if is_half(dtype) else inputs
        result = contract(form.text, *wide).astype(dtype, copy=False)
        return result if result.base is None else result.copy()  # a transpose or a diagonal is a view of the operand
    kind = np.float32 if is_half(dtype) else dtype
    product = ctx.xp.einsum(form.text, *inputs, precision=ctx.precision, preferred_element_type=kind, optimize="greedy")
    return product.astype(dtype)


def _fill_diagonals(xp: Any, x: Any, once: tuple[str, ...], output: tuple[str, ...]) -> Any:
    """Repeat dimensions: ``x`` has the labels ``once``; where ``output`` repeats one, only the diagonal is filled."""
    if once == output:
        return x
    extra = x.ndim - len(once) + 1 if _DOTS in once else 1
    done = list(once)
    for position, label in enumerate(output):
        if label != _DOTS and label in output[:position]:
            first = output.index(label)
            axes = [sum(extra if item == _DOTS else 1 for item in done[:i]) for i in (first, position)]
            size = x.shape[axes[0]]
            x = xp.expand_dims(x, axes[1])
            shape = [1] * x.ndim
            shape[axes[0]] = shape[axes[1]] = size
            x = xp.where(np.eye(size, dtype=bool).reshape(shape), x, x.dtype.type(0))
            done.insert(position, label)
    return x


# ------------------------------------------------------------------------------------------------------------ gradient
def _operand_gradient(op: Any, grad: Any, at: int, terms: list[tuple[str, ...]], output: tuple[str, ...]) -> Any:
    """The gradient of one operand: a product of the incoming one and the other operands, in that operand's labels.

    Labels that only this operand has were summed over: the gradient is repeated along them. Where its ellipsis was
    broadcast, it is summed back.
    """
    x = op.inputs[at]
    own = terms[at]
    others = [(labels, conjugate(op.inputs[i])) for i, labels in enumerate(terms) if i != at]
    available = {label for labels, _ in others for label in labels} | set(output)
    once = tuple(dict.fromkeys(own))
    named = [label for label in once if label != _DOTS]
    present = [label for label in named if label in available]
    dots = (_DOTS,) if any(_DOTS in labels for labels, _ in [*others, (output, None)]) else ()
    operands = [grad, *(tensor for _, tensor in others)]
    slope = _build([output, *(labels for labels, _ in others)], (*dots, *present), operands)
    for i, label in reversed(list(enumerate(named))):
        if label not in available:
            slope = build("ExpandDims", slope, i - len(named))
    # ``found`` has the labels [..., named]; the operand's own shape in that order is the target.
    if own != once:
        target = build("Einsum", [x], equation=_text([own], ((_DOTS,) if _DOTS in own else ()) + tuple(named)))
    elif _DOTS in own and own[0] != _DOTS:
        target = build("Einsum", [x], equation=_text([own], (_DOTS, *named)))
    else:
        target = x
    if dots:
        # Dimensions put in for missing labels have length 1 on one side only: they are spread below, not summed.
        missing = [label for label in named if label not in available]
        slim = target
        for label in missing:
            slim = build("Sum", slim, [named.index(label) - len(named)], keep_dims=True)
        slope = reduce_to_shape_of(slope, slim)
    if len(present) != len(named) or (_DOTS in own and not dots):
        slope = build("BroadcastTo", slope, shape_of(target))
    if target is x:
        return slope
    return build("Einsum", [slope], equation=_text([((_DOTS,) if _DOTS in own else ()) + tuple(named)], own))


def _build(inputs: Any, output: Any, tensors: list[Any], name: str | None = None) -> Any:
    """An Einsum node, or a chain of nodes with two operands each."""
    if len(tensors) > 2:
        return _chain(list(inputs), tuple(output), tensors, name)
    if len(tensors) == 1 and tuple(inputs[0]) == tuple(output):
        return tensors[0] if name is None else build("Identity", tensors[0], name=name)
    return build("Einsum", tensors, equation=_text(inputs, output), name=name)


def _chain(inputs: list[tuple[str, ...]], output: tuple[str, ...], tensors: list[Any], name: str | None) -> Any:
    """Contract pairs until two operands are left; the order is one that is cheap for the sizes that are known."""
    inputs, tensors = list(inputs), list(tensors)
    for first, second in _order(inputs, output, tensors):
        if len(tensors) == 2:
            break
        pair = [inputs[first], inputs[second]]
        operands = [tensors[first], tensors[second]]
        for i in sorted((first, second), reverse=True):
            del inputs[i], tensors[i]
        wanted = set(output) | {label for labels in inputs for label in labels}
        remaining = tuple(dict.fromkeys(label for labels in pair for label in labels if label in wanted))
        if _DOTS in pair[0] + pair[1] and _DOTS not in remaining:
            remaining = (_DOTS, *remaining)
        inputs.append(remaining)
        tensors.append(build("Einsum", operands, equation=_text(pair, remaining)))
    return build("Einsum", tensors, equation=_text(inputs, output), name=name)


def _order(inputs: list[tuple[str, ...]], output: tuple[str, ...], tensors: list[Any]) -> list[tuple[int, int]]:
    """Pairs of positions to contract, in NumPy's greedy order; unknown sizes count as 64."""
    sizes, _ = _sizes(inputs, [tensor._shape for tensor in tensors], _text(inputs, output))
    plain = [tuple(label for label in dict.fromkeys(labels) if label != _DOTS) for labels in inputs]
    arrays = [np.broadcast_to(np.zeros(()), [64 if sizes[i] is None else sizes[i] for i in labels]) for labels in plain]
    target = tuple(label for label in dict.fromkeys(output) if label != _DOTS)
    path = np.einsum_path(_text(plain, target), *arrays, optimize="greedy")[0][1:]
    pairs: list[tuple[int, int]] = []
    count = len(inputs)
    for step in path:
        step = sorted(step)
        while len(step) > 2:  # NumPy may take several at once: the rest is joined to the result of the first two
            pairs.append((step[0], step[1]))
            step = [i - 2 for i in step[2:]] + [count - 2]
            count -= 1
        if len(step) == 2:
            pairs.append((step[0], step[1]))
            count -= 1
    return pairs


# -------------------------------------------------------------------------------------------------------------- public
def _complete(equation: str, count: int) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Parse an equation whose output may be implied: the labels that occur once, in alphabetical order."""
    text = equation.replace(" ", "")
    if "->" not in text:
        inputs = [_labels(term) for term in text.split(",")]
        flat = [label for labels in inputs for label in labels]
        once = sorted(label for label in set(flat) if flat.count(label) == 1 and label != _DOTS)
        text += "->" + (_DOTS if _DOTS in flat else "") + "".join(once)
    inputs, output = parse(text)
    if len(inputs) != count:
        raise ValueError(
            f'Got {count} inputs for equation "{equation}", expecting {len(inputs)}\n'
            + errors.message(
                f"{count} tensors",
                f"{len(inputs)} tensors, one for each list of labels",
                "one tensor for each list of labels",
            )
        )
    return inputs, output


@public("einsum", "linalg.einsum")
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Any:
    """The sum of products that ``equation`` describes.

    Args:
        equation: ``"ij,jk->ik"``: a label for each dimension of each input, and those of the output; without ``->``
            the output has
            the labels that occur once, sorted. ``...`` stands for dimensions that broadcast. A label may repeat in an
            input.
        inputs: tensors of one type.
        kwargs: ``name``, and ``optimize`` (accepted: the order of contraction is always chosen by size).

    Raises:
        ValueError: labels and shapes do not fit. TypeError: another keyword.

    Example:
        >>> import anabranch as tf
        >>> tf.einsum("bij,bjk->bik", tf.zeros([5, 2, 3]), tf.zeros([5, 3, 4])).shape.as_list()
        [5, 2, 4]
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(
            f"invalid keyword arguments for this function: {', '.join(sorted(kwargs))}\n"
            + errors.message(
                f"keywords {sorted(kwargs)}", "only the arguments name and optimize", "leave the others out"
            )
        )
    terms, output = _complete(equation, len(inputs))
    with name_scope(name, "einsum", list(inputs)):
        first = convert_to_tensor(inputs[0])
        tensors = [first, *(convert_to_tensor(item, preferred_dtype=first.dtype.base) for item in inputs[1:])]
        if len(tensors) <= 2:
            return build("Einsum", tensors, equation=_text(terms, output))
        return _build(terms, output, tensors)


@public("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
    """Sum products over pairs of dimensions of ``a`` and ``b``.

    Args:
        a: a tensor.
        b: a tensor of the same type.
        axes: ``n`` for the last n dimensions of ``a`` and the first n of ``b``, or two ints or lists of dimensions to
            pair.
        name: name of the last op.

    Returns:
        The dimensions of ``a`` and then those of ``b`` that are left.

    Example:
        >>> import anabranch as tf
        >>> tf.tensordot(tf.zeros([2, 3, 4]), tf.zeros([4, 3, 5]), [[1, 2], [1, 0]]).shape.as_list()
        [2, 5]
    """
    with name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, name="b", preferred_dtype=a.dtype.base)
        if a._shape is None or b._shape is None or (isinstance(axes, Tensor) and known(axes) is None):
            return _dynamic_tensordot(a, b, axes, scope)
        pairs = _dot_axes(a, b, axes)
        left, left_free = _as_matrix(a, pairs[0], contracted_first=False)
        right, right_free = _as_matrix(b, pairs[1], contracted_first=True)
        product = matmul(left, right)
        known_sizes = isinstance(left_free, list) and isinstance(right_free, list)
        count_more(4 if known_sizes else 5)
        if known_sizes:
            return build("Reshape", product, np.array(left_free + right_free, np.int32), name=scope)
        result = build("Reshape", product, build("ConcatV2", [left_free, right_free], 0), name=scope)
        result.set_shape([x._shape[i] for x, gone in ((a, pairs[0]), (b, pairs[1])) for i in _others(x, gone)])
        return result


def _dynamic_tensordot(a: Any, b: Any, axes: Any, name: str) -> Any:
    """The product where the ranks, or the dimensions to pair, are known only when it runs."""
    axes = axes if isinstance(axes, (list, tuple)) else convert_to_tensor(axes, dtypes.int32, name="axes")
    ranks = build("Rank", a), build("Rank", b)
    if isinstance(axes, Tensor) and axes.shape.ndims == 0:
        pairs = [build("Range", build("Sub", ranks[0], axes), ranks[0], 1), build("Range", 0, axes, 1)]
    else:
        if isinstance(axes, Tensor) and axes.shape.ndims is None:
            pairs = [build("GatherV2", axes, row, 0) for row in (0, 1)]  # a row for each, as TensorFlow takes it
        else:
            pairs = [
                build("Reshape", convert_to_tensor(own, dtypes.int32), [-1])
                for own in (build("Unpack", axes, num=2) if isinstance(axes, Tensor) else axes)
            ]
        pairs = [
            build(
                "SelectV2", build("Less", own, 0), build("Add", own, rank), own
            )  # others are checked where they are used
            for own, rank in zip(pairs, ranks, strict=True)
        ]
    matrices, rests = [], []
    for x, rank, contracted, first in zip((a, b), ranks, pairs, (False, True), strict=True):
        free = build("ListDiff", build("Range", 0, rank, 1), contracted)[0]
        shape = build("Shape", x)
        sizes = build("GatherV2", shape, free, 0), build("GatherV2", shape, contracted, 0)
        order, extents = ([contracted, free], sizes[::-1]) if first else ([free, contracted], sizes)
        moved = build("Transpose", x, build("ConcatV2", order, 0))
        matrices.append(build("Reshape", moved, build("Pack", [build("Prod", extent, 0) for extent in extents])))
        rests.append(sizes[0])
    return build("Reshape", matmul(*matrices), build("ConcatV2", rests, 0), name=name)


def _others(x: Any, gone: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(x._shape)) if i not in gone]


def _dot_axes(a: Any, b: Any, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, Tensor):
        value = known(axes)
        assert value is not None
        axes = value.tolist()
    ranks = len(a._shape), len(b._shape)
    if isinstance(axes, (int, np.integer)):
        if axes < 0 or axes > min(ranks):
            words = "'axes' must be at least 0." if axes < 0 else f"'axes' must not be larger than the ranks, {ranks}."
            raise ValueError(
                f"{words}\n"
                + errors.message(
                    f"axes={axes} for ranks {ranks[0]} and {ranks[1]}",
                    f"a number from 0 to {min(ranks)}, or lists of dimensions",
                    "axes=[[1], [0]]",
                )
            )
        return tuple(range(ranks[0] - axes, ranks[0])), tuple(range(axes))
    if len(axes) != 2:
        raise ValueError(
            "'axes' must be an integer or have length 2.\n"
            + errors.message(f"axes={axes!r}", "an int or two lists", "axes=[[dimensions of a], [dimensions of b]]")
        )
    pairs = []
    for own, rank, letter in zip(axes, ranks, "ab", strict=True):
        own = (own,) if isinstance(own, (int, np.integer)) else tuple(int(i) for i in own)
        for i in own:
            if not -rank <= i < rank:
                raise IndexError(
                    errors.message(
                        f"dimension {i} of {letter}, which has rank {rank}",
                        f"a dimension in [{-rank}, {rank})",
                        "axes=[[dimensions of a], [dimensions of b]]",
                    )
                )
        pairs.append(tuple(int(i) % rank for i in own))
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(
            f"Different number of contraction axes 'a' and 'b', {len(pairs[0])} != {len(pairs[1])}.\n"
            + errors.message(
                f"{len(pairs[0])} dimensions of a and {len(pairs[1])} of b",
                "as many dimensions of a as of b",
                "axes=[[dimensions of a], [dimensions of b]], paired in order",
            )
        )
    return pairs[0], pairs[1]


def _as_matrix(x: Any, contracted: tuple[int, ...], contracted_first: bool) -> tuple[Any, Any]:
    """``x`` as a matrix with the contracted dimensions in one; and the sizes of the others, as a list if all are
    known.
    """
    free = _others(x, contracted)
    order = [*contracted, *free] if contracted_first else [*free, *contracted]
    with counted_as(0):  # tensordot counts it, whether it is needed or not
        moved = x if order == list(range(len(order))) else build("Transpose", x, np.array(order, np.int32))
    sizes = [x._shape[i] for i in free]
    inner = [x._shape[i] for i in contracted]
    if None not in sizes and None not in inner:
        pair = [math.prod(sizes), math.prod(inner)]
        rest: Any = sizes
        target: Any = np.array(pair[::-1] if contracted_first else pair, np.int32)
    else:
        shape = shape_of(x)
        rest = build("GatherV2", shape, np.array(free, np.int32), 0)
        sums = [build("Prod", rest, 0), build("Prod", build("GatherV2", shape, np.array(contracted, np.int32), 0), 0)]
        target = build("Pack", sums[::-1] if contracted_first else sums, axis=0)
        rest = sizes if None not in sizes else rest
    return build("Reshape", moved, target), rest if not isinstance(rest, list) else list(rest)
