"""Functions over the rows of tensors: ``tf.map_fn``, ``tf.scan``, ``tf.foldl``, ``tf.foldr``.

Each is a ``while_loop`` over arrays of the rows (:class:`~anabranch.ops.lists.public_tensor_array.TensorArray`), so
the number of rows need not be known, and everything differentiates. ``parallel_iterations`` and ``swap_memory`` are
passed to the loop. Structures of tensors are taken and returned wherever TensorFlow 1.x takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more, in_function
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import nest
from anabranch.ops.control.bodies import told
from anabranch.ops.control.public_while import while_loop
from anabranch.ops.lists.public_tensor_array import TensorArray
from anabranch.ops.shared.array_rules import shape_of


class _Rows:
    """The rows of the tensors of a structure, as arrays."""

    def __init__(self, function: str, elems: Any, clear_after_read: bool = True) -> None:
        self.structure = elems
        flat = nest.flatten(elems)
        if not flat:
            raise ValueError(
                errors.message(f"elems={elems!r} of {function}", "at least one tensor", f"{function}(fn, x)")
            )
        for leaf in flat:
            if isinstance(leaf, SparseTensor):
                raise TypeError(
                    "To perform a map on the values of a sparse tensor use either  SparseTensor(input.indices, "
                    "fn(input.values), input.dense_shape) or  SparseTensor(input.indices, map_fn(fn, input.values), "
                    "input.dense_shape)\n"
                    + errors.message(
                        f"the SparseTensor {leaf!r} as elems of {function}",
                        "elems that are dense tensors",
                        f"{function}(fn, x.values)",
                    )
                )
        self.tensors = [convert_to_tensor(leaf, name="elem") for leaf in flat]
        first: int | None = None
        for tensor in self.tensors:
            raw = tensor._shape
            if raw is not None and not raw:
                raise ValueError(
                    (
                        "elems must be a 1+ dimensional Tensor, not a scalar\n"
                        if len(self.tensors) == 1
                        else "elements in elems must be 1+ dimensional Tensors, not scalars\n"
                    )
                    + errors.message(
                        f"{tensor.name!r} of shape [] as elems of {function}",
                        "a tensor of rank 1 or more, whose rows are taken",
                        f"{function}(fn, tf.expand_dims(x, 0)), or fn(x)",
                    )
                )
            count = None if raw is None else raw[0]
            if first is not None and count is not None and count != first:
                raise ValueError(
                    f"Dimensions {first} and {count} are not compatible\n"
                    + errors.message(
                        f"elems of {function} with {first} and {count} rows",
                        "as many rows in each of elems",
                        "tensors of equal first dimension",
                    )
                )
            first = count if first is None else first
        self.static_count = first
        self.count: Any = first
        if first is None:
            self.count = build("StridedSlice", shape_of(self.tensors[0]), [0], [1], [1], shrink_axis_mask=1)
        self.arrays = [
            TensorArray(
                tensor.dtype, self.count, dynamic_size=False, infer_shape=True, clear_after_read=clear_after_read
            ).unstack(tensor)
            for tensor in self.tensors
        ]

    def row(self, index: Any) -> Any:
        """The structure with a row of each tensor."""
        return self._packed([array.read(index) for array in self.arrays])

    def _packed(self, leaves: Sequence[Any]) -> Any:
        return nest.pack_sequence_as(self.structure, leaves) if nest.is_nested(self.structure) else leaves[0]

    def results(self, arrays: Sequence[TensorArray]) -> list[Tensor]:
        """What arrays hold, one row for each of ours."""
        stacked = [array.stack() for array in arrays]
        for tensor in stacked:
            if self.static_count is not None and tensor._shape is not None:
                tensor.set_shape((self.static_count, *tensor._shape[1:]))
        return stacked


def _packed_as(structure: Any, leaves: Sequence[Any]) -> Any:
    return nest.pack_sequence_as(structure, leaves) if nest.is_nested(structure) else leaves[0]


def _callable(function: str, fn: Any) -> None:
    if not callable(fn):
        raise TypeError(
            "fn must be callable.\n"
            + errors.message(f"fn={fn!r}", f"a function, as the first argument of {function}", f"{function}(fn, elems)")
        )


def _checked(function: str, fn: Any, wanted: Any, returned: Any, what: str, instead: str) -> list[Any]:
    """The leaves of what ``fn`` returned, which must have the form of ``wanted``."""
    try:
        nest.assert_same_structure(wanted, returned)
    except (TypeError, ValueError) as problem:
        raise type(problem)(
            "The two structures don't have the same nested structure.\n"
            + errors.message(
                f"{told(fn)} returned {returned!r} for {what} {wanted!r} of {function}",
                "a value of the same form",
                instead,
            )
        ) from None
    return nest.flatten(returned)


@public("map_fn")
def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """``fn`` applied to each row of ``elems``; the results stacked along a new first dimension.

    Args:
        fn: function of one row, in the structure of ``elems``.
        elems: a tensor, or a structure of tensors, with the same first dimension.
        dtype: dtype (structure of dtypes) of what ``fn`` returns, if it differs from that of ``elems``.
        parallel_iterations: passed to the loop.
        back_prop: whether gradients flow through the result.
        swap_memory: passed to the loop.
        infer_shape: whether all results of ``fn`` must have one shape.
        name: name scope.
        fn_output_signature: TensorFlow 2's name of ``dtype``; `tf.TensorSpec` objects are taken for their dtypes.

    Raises:
        TypeError: ``fn`` is not callable, or a SparseTensor is given. ValueError: ``elems`` has no rows, or ``fn``
            returns another structure.

    Example:
        >>> import anabranch as tf
        >>> tf.Session().run(tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3])))
        array([1, 4, 9], dtype=int32)
    """
    _callable("tf.map_fn", fn)
    if fn_output_signature is not None:
        if dtype is not None:
            raise TypeError(
                errors.message(
                    f"dtype={dtype!r} and fn_output_signature={fn_output_signature!r}",
                    "one of the two arguments, which mean the same",
                    "leave dtype out",
                )
            )
        dtype = nest.map_structure(lambda spec: getattr(spec, "dtype", spec), fn_output_signature)
    with name_scope(name, "map", nest.flatten(elems)):
        rows = _Rows("tf.map_fn", elems)
        form = elems if dtype is None else dtype
        kinds = [tensor.dtype for tensor in rows.tensors] if dtype is None else nest.flatten(dtype)
        arrays = [TensorArray(kind, rows.count, dynamic_size=False, infer_shape=infer_shape) for kind in kinds]

        def compute(i: Any, arrays_so_far: Any) -> Any:
            returned = fn(rows.row(i))
            values = _checked(
                "tf.map_fn",
                fn,
                form,
                returned,
                "dtype" if dtype is not None else "elems",
                "dtype=<a structure like the value of fn>",
            )
            count_more(-(isinstance(rows.count, Tensor) and not in_function()))  # the count comes in once
            return i + 1, [array.write(i, value) for array, value in zip(arrays_so_far, values, strict=True)]

        _, arrays_filled = while_loop(
            lambda i, _: i < rows.count,
            compute,
            (constant(0), arrays),
            parallel_iterations=_parallel(parallel_iterations),
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )
        return _packed_as(form, rows.results(arrays_filled))


@public("vectorized_map")
def vectorized_map(fn: Callable[..., Any], elems: Any) -> Any:
    """``fn`` applied to each row of ``elems``; the results, of any dtypes and structure, stacked along a new dimension.

    Like :func:`map_fn`, except that ``fn`` says itself what it returns: it is called once more, for the first row, to
    find out, and what that call builds never runs.

    Args:
        fn: function of one row, in the structure of ``elems``.
        elems: a tensor, or a structure of tensors, with the same first dimension.
    """
    _callable("tf.vectorized_map", fn)
    with name_scope(None, "vectorized_map", nest.flatten(elems)):
        tensors = nest.map_structure(convert_to_tensor, elems)
        first = nest.map_structure(lambda tensor: build("GatherV2", tensor, 0, 0), tensors)
        kinds = nest.map_structure(lambda value: convert_to_tensor(value).dtype.base, fn(first))
        return map_fn(fn, tensors, dtype=kinds)


def _parallel(value: int | None) -> int:
    return 10 if value is None else value


@public("scan")
def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int | None = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All partial results of folding ``fn`` over the rows of ``elems``, stacked along a new first dimension.

    Args:
        fn: function of the result so far (in the structure of ``initializer``) and a row (in that of ``elems``).
        elems: a tensor, or a structure of tensors, with the same first dimension.
        initializer: the value to begin with; the first row of ``elems`` if None, which is then the first result.
        parallel_iterations: passed to the loop.
        back_prop: whether gradients flow through the result.
        swap_memory: passed to the loop.
        infer_shape: whether all results of ``fn`` must have one shape.
        reverse: whether to begin with the last row; results stay at the places of their rows.
        name: name scope.

    Raises:
        TypeError: ``fn`` is not callable. ValueError: ``elems`` has no rows, or ``fn`` returns another structure.

    Example:
        >>> import anabranch as tf
        >>> tf.Session().run(tf.scan(lambda total, x: total + x, tf.constant([1, 2, 3])))
        array([1, 3, 6], dtype=int32)
    """
    _callable("tf.scan", fn)
    with name_scope(name, "scan", nest.flatten(elems)):
        rows = _Rows("tf.scan", elems, clear_after_read=False)
        form, first = _start("tf.scan", rows, elems, initializer, (rows.count - 1) if reverse else 0)
        arrays = [
            TensorArray(
                value.dtype,
                rows.count,
                dynamic_size=False,
                element_shape=value.shape if infer_shape else None,
                infer_shape=infer_shape,
            )
            for value in first
        ]
        # Without an initializer the first row is the first value, and the function sees the rows from the second on.
        done = 0
        if initializer is None:
            at = rows.count - 1 if reverse else 0
            arrays = [array.write(at, value) for array, value in zip(arrays, first, strict=True)]
            done = 1
        limit = rows.count

        def compute(i: Any, values: Any, arrays_so_far: Any) -> Any:
            returned = fn(_packed_as(form, values), rows.row(i))
            leaves = _checked(
                "tf.scan",
                fn,
                form,
                returned,
                "initializer" if initializer is not None else "elems",
                "initializer=<a structure like the value of fn>",
            )
            arrays_so_far = [array.write(i, value) for array, value in zip(arrays_so_far, leaves, strict=True)]
            count_more(-(isinstance(rows.count, Tensor) and not reverse and not in_function()))
            return (i - 1 if reverse else i + 1), leaves, arrays_so_far

        if reverse:
            start: Any = limit - 1 - done

            def condition(i: Any, *_: Any) -> Any:
                return i >= 0
        else:
            start = done

            def condition(i: Any, *_: Any) -> Any:
                return i < limit

        _, _, arrays_filled = while_loop(
            condition,
            compute,
            (convert_to_tensor(start), first, arrays),
            parallel_iterations=_parallel(parallel_iterations),
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=limit,
        )
        return _packed_as(form, rows.results(arrays_filled))


def _start(function: str, rows: _Rows, elems: Any, initializer: Any, at: Any) -> tuple[Any, list[Tensor]]:
    """The structure of results, and the values to begin with."""
    if initializer is not None:
        leaves = nest.flatten(initializer)
        if not leaves:
            raise ValueError(
                "initializer must be a (possibly nested) structure of at least one Tensor.\n"
                + errors.message(f"initializer={initializer!r} of {function}", "a value", "initializer=0.0")
            )
        return initializer, [convert_to_tensor(leaf, name="initializer") for leaf in leaves]
    return elems, [array.read(at) for array in rows.arrays]


def _fold(
    function: str,
    scope: str,
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any,
    parallel_iterations: int | None,
    back_prop: bool,
    swap_memory: bool,
    name: str | None,
    reverse: bool,
) -> Any:
    _callable(function, fn)
    with name_scope(name, scope, nest.flatten(elems)):
        rows = _Rows(function, elems, clear_after_read=False)
        start: Any = 0 if initializer is not None else 1
        if reverse:
            start = rows.count - 1 if initializer is None else rows.count
        form, first = _start(function, rows, elems, initializer, start if reverse else 0)

        def compute(i: Any, values: Any) -> Any:
            at = i - 1 if reverse else i
            returned = fn(_packed_as(form, values), rows.row(at))
            leaves = _checked(
                function,
                fn,
                form,
                returned,
                "initializer" if initializer is not None else "elems",
                "initializer=<a structure like the value of fn>",
            )
            count_more(0 if reverse or in_function() else -isinstance(rows.count, Tensor))
            return (at if reverse else i + 1), leaves

        _, folded = while_loop(
            lambda i, _: i > 0 if reverse else i < rows.count,
            compute,
            (convert_to_tensor(start), first),
            parallel_iterations=_parallel(parallel_iterations),
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )
        return _packed_as(form, folded)


@public("foldl")
def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int | None = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """``fn`` folded over the rows of ``elems`` from the first to the last.

    Args:
        fn: function of the result so far (in the structure of ``initializer``) and a row (in that of ``elems``).
        elems: a tensor, or a structure of tensors, with the same first dimension.
        initializer: the value to begin with; the first row of ``elems`` if None.
        parallel_iterations: passed to the loop.
        back_prop: whether gradients flow through the result.
        swap_memory: passed to the loop.
        name: name scope.

    Raises:
        TypeError: ``fn`` is not callable. ValueError: ``elems`` has no rows, or ``fn`` returns another structure.

    Example:
        >>> import anabranch as tf
        >>> tf.Session().run(tf.foldl(lambda total, x: 10 * total + x, tf.constant([1, 2, 3])))
        np.int32(123)
    """
    return _fold("tf.foldl", "foldl", fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, False)


@public("foldr")
def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int | None = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """``fn`` folded over the rows of ``elems`` from the last to the first; arguments as of :func:`foldl`.

    Example:
        >>> import anabranch as tf
        >>> tf.Session().run(tf.foldr(lambda total, x: 10 * total + x, tf.constant([1, 2, 3])))
        np.int32(321)
    """
    return _fold("tf.foldr", "foldr", fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, True)
