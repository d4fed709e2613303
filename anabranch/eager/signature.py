"""What a trace of a function is made for: the *signature* of its arguments.

Signatures are equal where the structure of the arguments is, dtype and shape of each tensor (arrays count as tensors),
and everything else by value. A trace may also be made for shapes of which less is known, so that it serves several
signatures.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import composites
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import nest, shapes
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.core.values.type_spec import TypeSpec


class Signature:
    """Arguments as what a trace is made for.

    Attributes:
        key: what equal signatures have in common.
        tensors: the tensors among the arguments, in order.
        rebuild: from tensors to arguments.
        arguments: what they were, positional ones and those by name.
    """

    __slots__ = ("arguments", "key", "rebuild", "tensors")

    def __init__(
        self, key: Any, tensors: list[Any], rebuild: Callable[[Sequence[Any]], tuple[Any, Any]], arguments: Any
    ) -> None:
        self.key = key
        self.tensors = tensors
        self.rebuild = rebuild
        self.arguments = arguments

    def names(self, parameters: inspect.Signature | None) -> list[str]:
        """For each tensor the name of the parameter that it was passed for, as ops can have it."""
        args, kwargs = self.arguments
        known = list(parameters.parameters.values()) if parameters is not None else []
        positional = [one.name for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        rest = next((one.name for one in known if one.kind is one.VAR_POSITIONAL), "args")
        named = [(positional[i] if i < len(positional) else rest, arg) for i, arg in enumerate(args)]
        found: list[str] = []
        for name, arg in [*named, *[(key, kwargs[key]) for key in sorted(kwargs)]]:
            plain = re.sub(r"[^A-Za-z0-9_.]", "_", str(name)).lstrip("_") or "unused"
            count = len(canonical(((arg,), {}), "").tensors)
            found += [plain if i == 0 else f"{plain}_{i}" for i in range(count)]
        return found


def canonical(arguments: tuple[Any, dict[str, Any]], name: str) -> Signature:
    """The signature of arguments.

    Raises:
        ValueError: an argument is neither a tensor nor can be hashed.
    """
    leaves = nest.flatten(arguments)
    key: list[Any] = []
    tensors: list[Any] = []
    places: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            places.append(len(tensors))
            tensors.append(leaf)
            key.append((leaf.dtype.base, leaf._shape))
        elif isinstance(leaf, np.ndarray | np.generic):
            places.append(len(tensors))
            tensor = convert_to_tensor(leaf)
            tensors.append(tensor)
            key.append((tensor.dtype.base, tensor._shape))
        elif isinstance(leaf, TensorSpec):
            places.append(len(tensors))
            tensors.append(leaf)
            named = () if leaf.name is None else (leaf.name,)  # which the argument has then
            key.append((leaf.dtype.base, shapes.as_raw(leaf.shape), *named))
        elif isinstance(leaf, TypeSpec):
            specs = leaf._part_specs()
            places.append((leaf, len(tensors), len(specs)))
            tensors += specs
            key.append((leaf._trace_key, *[(spec.dtype.base, shapes.as_raw(spec.shape)) for spec in specs]))
        elif composites.is_composite(leaf):
            parts = [part for part in composites.parts(leaf) if part is not None]
            places.append((leaf, len(tensors), len(parts)))
            tensors += parts
            key.append((composites.key(leaf), *[(part.dtype.base, part._shape) for part in parts]))
        else:
            places.append(None)
            try:
                hash(leaf)
            except TypeError:
                raise ValueError(
                    "Arguments supplied to `defun`-generated functions must be hashable.\n"
                    + errors.message(
                        f"an argument {leaf!r} of {name}", "tensors, arrays and values that can be hashed", "a tuple"
                    )
                ) from None
            key.append((type(leaf), leaf))
    structure = _structure(arguments)

    def rebuild(given: Sequence[Any]) -> tuple[Any, Any]:
        filled = []
        for leaf, place in zip(leaves, places, strict=True):
            if place is None:
                filled.append(leaf)
            elif isinstance(place, int):
                filled.append(given[place])
            else:
                value, first, count = place
                parts = given[first : first + count]
                filled.append(
                    value._of_parts(parts) if isinstance(value, TypeSpec) else composites.rebuilt_argument(value, parts)
                )
        packed: tuple[Any, Any] = nest.pack_sequence_as(arguments, filled)
        return packed

    return Signature((structure, *key), tensors, rebuild, arguments)


def _structure(value: Any) -> Any:
    """The form of a structure, as something that can be hashed."""
    if isinstance(value, dict):
        return (dict, *[(key, _structure(value[key])) for key in sorted(value)])
    if nest.is_nested(value):
        return (type(value), *[_structure(part) for part in nest.parts(value)])
    return None


def kept(arguments: tuple[Any, dict[str, Any]]) -> Callable[[], None]:
    """A check that what was passed to a Python function has the structure and the leaves that it has now.

    The check raises ValueError if not: a later call would find other arguments.
    """
    structure, leaves = _structure(arguments), nest.flatten(arguments)

    def check() -> None:
        if _structure(arguments) == structure and all(
            now is before for now, before in zip(nest.flatten(arguments), leaves, strict=True)
        ):
            return
        raise ValueError(
            "Function to be traced should not modify structure of input arguments. Check if your function has list and "
            "dictionary operations that alter input arguments, such as `list.pop`, `list.append`\n"
            + errors.message(
                f"a function that makes {nest.flatten(arguments)} of its arguments {leaves}",
                "arguments that stay as they are",
                "a copy: x = list(x), or dict(x)",
            )
        )

    return check


def checked_input_signature(given: Any) -> tuple[Any, ...] | None:
    """An input signature as a tuple.

    Raises:
        TypeError: it is neither a list nor a tuple, or has parts that are not specifications.
    """
    if given is None:
        return None
    if not isinstance(given, (tuple, list)):
        raise TypeError(
            f"input_signature must be either a tuple or a list, received {type(given)}\n"
            + errors.message(f"input_signature={given!r}", "a list", "[tf.TensorSpec([], tf.float32)]")
        )
    wrong = [leaf for leaf in nest.flatten(given) if not isinstance(leaf, (TensorSpec, TypeSpec))]
    if wrong:
        raise TypeError(
            f"Invalid input_signature {given}; input_signature must be a possibly nested sequence of TensorSpec "
            "objects.\n"
            + errors.message(f"{wrong[0]!r} in an input signature", "a tf.TensorSpec", "tf.TensorSpec([], tf.float32)")
        )
    return tuple(given)


def raw_shape(tensor: Any) -> Any:
    """The shape of a tensor, or of what stands for one."""
    return shapes.as_raw(tensor.shape) if isinstance(tensor, TensorSpec) else tensor._shape


def without_shapes(signature: Signature) -> Any:
    """A signature's key, but for the sizes of its tensors."""
    structure, *key = signature.key
    return structure, *[_without_shape(part) for part in key]


def _without_shape(part: Any) -> Any:
    if len(part) != 2 or isinstance(part[0], type):
        return part
    return part[0], None if part[1] is None else len(part[1])


def is_wider(raw: Any, other: Any) -> bool:
    """Whether a shape is the other one, or knows less of it."""
    return raw is None or (other is not None and all(a is None or a == b for a, b in zip(raw, other, strict=True)))


def common(raw: Any, other: Any) -> Any:
    """What is known of both shapes."""
    if raw is None or other is None or len(raw) != len(other):
        return None
    return tuple([a if a == b else None for a, b in zip(raw, other, strict=True)])
