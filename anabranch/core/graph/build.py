"""Applying an op, from its type's name and Python values.

``build("MatMul", a, b, transpose_b=True, name="product")`` converts inputs, infers type and length attributes, checks
everything against the contract, and hands the op to the builder of the thread: a graph appends it, a mode that runs ops
at once runs it (see :mod:`anabranch.core.graph.builder`). It returns what a program wants: the output tensor if there
is one, the operation if there is none (None where it has run), a named tuple (with lists for list outputs) otherwise.
Op families build each other's ops this way, without importing each other.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.opdef import REQUIRED, ArgSpec, OpDefinition
from anabranch.core.graph.builder import Builder, builder_of, current_builder
from anabranch.core.graph.convert import convert_to_tensor, first_dtype, fits, set_pack
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import constants, dtypes, elements

_result_types: dict[str, Callable[..., Any]] = {}


def build(type_name: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
    """Add an operation of type ``type_name`` and return its outputs (see the module's docstring).

    Inputs may be given by position or by their names in the signature; everything else is an attribute.

    Raises:
        TypeError: wrong dtype, unknown argument. ValueError: wrong shape, missing attribute.
    """
    apply = current_builder().apply
    if apply is not None:
        outputs = apply(type_name, inputs, attrs)
        if outputs is not NotImplemented:
            return outputs
    return results(build_operation(type_name, inputs, attrs, name))


def results(op: OpView) -> Any:
    """An operation's outputs as :func:`build` returns them."""
    definition = op.definition
    outputs = op._outputs
    if definition.fixed_outputs:  # type: ignore[attr-defined]
        if len(outputs) == 1:
            return outputs[0]
        if not outputs:
            return op._stand_in
        grouped: list[Any] = list(outputs)
    else:
        grouped = []
        position = 0
        for spec in definition.outputs:
            count = spec.count(op._attrs)
            grouped.append(list(outputs[position : position + count]) if spec.is_list else outputs[position])
            position += count
        if len(grouped) == 1:
            return grouped[0] if grouped[0] else op._stand_in
    make = _result_types.get(definition.type_name)
    if make is None:
        make = _result_types[definition.type_name] = collections.namedtuple(
            definition.type_name.lstrip("_"), [spec.name for spec in definition.outputs]
        )
    return make(*grouped)


def _pack(tensors: Sequence[Tensor], name: str) -> Tensor:
    return build("Pack", list(tensors), axis=0, name=name)


def _cast(tensor: Tensor, dtype: dtypes.DType) -> Tensor:
    return build("Cast", tensor, DstT=dtype)


set_pack(_pack, _cast)


def build_operation(type_name: str, inputs: Sequence[Any], attrs: dict[str, Any], name: str | None = None) -> Any:
    """Like :func:`build`, but returns the operation: in a graph the new one, else a record of what has run."""
    definition = opdef._registry.get(type_name) or opdef.lookup(type_name)
    specs = definition.inputs
    values = list(inputs)
    given = dict(attrs)
    if len(values) < len(specs):
        for spec in specs[len(values) :]:
            if spec.name not in given:
                raise TypeError(
                    f"No argument for input {spec.name}\n"
                    + errors.message(
                        f"op {type_name!r} without input {spec.name!r}", f"inputs {[s.name for s in specs]}", "pass it"
                    )
                )
            values.append(given.pop(spec.name))
    elif len(values) > len(specs):
        raise TypeError(
            errors.message(
                f"{len(values)} inputs for op {type_name!r}", f"inputs {[s.name for s in specs]}", "pass fewer"
            )
        )

    stored: dict[str, Any] = {}
    for key, value in given.items():
        spec_attr = definition.attrs.get(key)
        if spec_attr is not None:
            if value is not None or spec_attr.kind == "shape":
                stored[key] = spec_attr.convert(value, key, type_name)
        elif key[:1] == "_":
            stored[key] = value
        else:
            unknown = ", ".join(sorted(one for one in given if one not in definition.attrs and one[:1] != "_"))
            raise TypeError(
                f"apply_op() got unexpected keyword arguments: {unknown}\n"
                + errors.message(
                    f"arguments {unknown} for op {type_name!r}",
                    f"inputs {[s.name for s in specs]} or attributes {sorted(definition.attrs)}",
                    "check the spelling",
                )
            )

    builder = builder_of(values if definition.fixed_inputs else _flatten(values))  # type: ignore[attr-defined]
    tensors: list[Tensor] | None = None
    if definition.fixed_inputs:  # type: ignore[attr-defined]
        kind = builder.tensor_type
        for value in values:
            if type(value) is not kind:
                break
        else:
            tensors = values
    if tensors is None:
        name, tensors = _convert_inputs(builder, definition, values, stored, name or type_name)
    else:
        for spec, tensor in zip(specs, tensors, strict=True):
            if spec.type_attr is not None and spec.type_attr not in stored:
                stored[spec.type_attr] = tensor.dtype.base
    _check_dtypes(definition, tensors, stored)

    for key, spec_attr in definition.attrs.items():
        if key not in stored:
            if spec_attr.default is REQUIRED:
                raise TypeError(
                    f"No argument for attr {key}\n"
                    + errors.message(
                        f"op {type_name!r} without attribute {key!r}",
                        f"a value of kind {spec_attr.kind}",
                        f"pass {key}=",
                    )
                )
            stored[key] = spec_attr.default
        elif spec_attr.allowed is not None and key in definition.inferred_attrs:  # type: ignore[attr-defined]
            _check_allowed(definition, key, spec_attr, stored[key], tensors)
        elif spec_attr.minimum is not None and key in definition.inferred_attrs:  # type: ignore[attr-defined]
            _check_minimum(definition, key, spec_attr.minimum, stored[key])
    if definition.effect.resources and any(spec.is_ref for spec in specs):
        # A ref never leaves its device, so what takes it as one is placed there. (No op has a list of refs.)
        with contextlib.ExitStack() as stack:
            for spec in specs:
                if spec.is_ref:
                    tensor = tensors[definition.input_range(spec.name, stored).start]
                    stack.enter_context(builder.colocate_with(tensor))
            return builder._create(definition, tensors, stored, name or type_name)
    return builder._create(definition, tensors, stored, name or type_name)


def _check_allowed(definition: OpDefinition, key: str, spec: opdef.Attr, value: Any, tensors: Sequence[Tensor]) -> None:
    for item in value if isinstance(value, tuple) else (value,):
        if item not in spec.allowed:  # type: ignore[operator]
            names = ", ".join(getattr(choice, "name", str(choice)) for choice in spec.allowed or ())
            listed = ", ".join(f"{t._label} ({t.dtype.base.name})" for t in tensors)
            raise TypeError(
                f"Value passed to parameter {_typed_by(definition, key)!r} has DataType {getattr(item, 'name', item)} "
                f"not in list of allowed values: {names}\n"
                + errors.message(
                    f"{getattr(item, 'name', item)} for {key!r} of op {definition.type_name!r}: {listed}",
                    f"one of {names}",
                    "cast the inputs with tf.cast",
                )
            )


def _typed_by(definition: OpDefinition, key: str) -> str:
    """The name of the first input whose type is the attribute ``key``; the attribute's own if there is none."""
    return next((spec.name for spec in definition.inputs if key in (spec.type_attr, spec.type_list_attr)), key)


def _check_minimum(definition: OpDefinition, key: str, minimum: int, value: Any) -> None:
    """Raise ValueError if an attribute that was inferred is below its minimum: a list of inputs is too short."""
    given = len(value) if isinstance(value, tuple) else value
    if given < minimum:
        spec = next(one for one in definition.inputs if key in (one.number_attr, one.type_list_attr))
        raise ValueError(
            f"List argument {spec.name!r} to {definition.type_name!r} Op with length {given} shorter than minimum "
            f"length {minimum}.\n"
            + errors.message(
                f"{given} tensors for {spec.name!r} of op {definition.type_name!r}", f"at least {minimum}", "give more"
            )
        )


def _flatten(values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def _type_from_tensors(specs: Sequence[ArgSpec], values: Sequence[Any], stored: dict[str, Any]) -> None:
    """Infer type attributes from arguments that already have a dtype, so that constants beside them take it."""
    for spec, value in zip(specs, values, strict=True):
        if spec.type_attr is None or spec.type_attr in stored:
            continue
        for item in value if spec.is_list and isinstance(value, (list, tuple)) else (value,):
            dtype = getattr(item, "dtype", None)
            if isinstance(dtype, dtypes.DType):
                stored[spec.type_attr] = dtype.base
                break


def _convert_inputs(
    builder: Builder, definition: OpDefinition, values: Sequence[Any], stored: dict[str, Any], name: str
) -> tuple[str, list[Tensor]]:
    """Convert inputs, with constants named ``<op name>/<argument>``; the op's final name, and tensors."""
    tensors: list[Tensor] = []
    with builder.operand_scope(name) as full:
        _type_from_tensors(definition.inputs, values, stored)
        for spec, value in zip(definition.inputs, values, strict=True):
            if not spec.is_list:
                tensor = _convert_one(
                    definition, spec, value, stored, spec.name, spec.dtype or stored.get(spec.type_attr or "")
                )
                if spec.type_attr is not None:
                    stored.setdefault(spec.type_attr, tensor.dtype.base)
                tensors.append(tensor)
                continue
            if not isinstance(value, (list, tuple)):
                raise TypeError(
                    f"Expected list for {spec.name!r} argument to {definition.type_name!r} Op, not {value!r}.\n"
                    + errors.message(
                        f"{type(value).__name__} for input {spec.name!r} of op {definition.type_name!r}",
                        "a list of tensors",
                        f"[{spec.name}]",
                    )
                )
            if spec.type_list_attr is not None:
                types = stored.get(spec.type_list_attr)
                items = _convert_list(definition, spec, value, stored, types if types is not None else (), len(tensors))
                stored.setdefault(spec.type_list_attr, tuple(item.dtype.base for item in items))
            else:
                if not value:
                    _check_empty(definition, spec, stored)
                items = _convert_list(definition, spec, value, stored, None, len(tensors))
                wanted_count = stored.setdefault(spec.number_attr or "", len(items))
                least = definition.attrs[spec.number_attr or ""].minimum
                if least is not None:
                    _check_minimum(definition, spec.number_attr or "", least, len(items))
                if wanted_count != len(items):
                    first = next(one.name for one in definition.inputs if one.number_attr == spec.number_attr)
                    beside = f" of argument {first!r}" if first != spec.name else ""
                    raise ValueError(
                        f"List argument {spec.name!r} to {definition.type_name!r} Op with length {len(items)} "
                        f"must match length {wanted_count}{beside}.\n"
                        + errors.message(
                            f"{len(items)} tensors for {spec.name!r} of op {definition.type_name!r}",
                            f"{wanted_count} as other list arguments have",
                            "pass lists of one length",
                        )
                    )
            tensors.extend(items)
    return full, tensors


def _convert_list(
    definition: OpDefinition,
    spec: ArgSpec,
    values: Sequence[Any],
    stored: dict[str, Any],
    types: Sequence[dtypes.DType] | None,
    first: int,
) -> list[Tensor]:
    """Convert the values of a list argument: to ``types`` each (what is left over to its own), or all to one dtype.

    ``first`` is the number of the first among all inputs of the op.
    """
    tensors: list[Tensor] = []
    for i, value in enumerate(values):
        if types is not None:
            dtype = types[i] if i < len(types) else None
        else:
            dtype = spec.dtype or stored.get(spec.type_attr or "")
        try:
            tensor = _convert_one(definition, spec, value, stored, f"{spec.name}_{i}", dtype)
        except elements.IntegerRangeError:
            raise
        except (TypeError, ValueError) as problem:
            if isinstance(value, Tensor) and (dtype is None or value.dtype.base == dtype):
                raise  # it is not the type: a tensor of another graph, say
            if isinstance(value, Tensor) and value.has_value and dtype is not None:
                _refuse_value(definition, first + i, value, dtype)
            raise TypeError(f"{_types_in_list(definition, spec, values, dtype, types)}\n{problem}") from None
        if spec.type_attr is not None:
            stored.setdefault(spec.type_attr, tensor.dtype.base)
        tensors.append(tensor)
    return tensors


def _types_in_list(
    definition: OpDefinition,
    spec: ArgSpec,
    values: Sequence[Any],
    dtype: dtypes.DType | None,
    types: Sequence[dtypes.DType] | None,
) -> str:
    """Name the types of a list's values that do not fit, in TensorFlow's words: programs match on them."""
    given = ", ".join(_type_alone(value) for value in values)
    if types:
        first = _typed_by(definition, spec.type_list_attr or "")
        wanted = ", ".join(one.name for one in types)
        return (
            f"Input {spec.name!r} of {definition.type_name!r} Op has type list of {given} that does not match type "
            f"list {wanted}" + (f" of argument {first!r}." if first != spec.name else ".")
        )
    words = f"Tensors in list passed to {spec.name!r} of {definition.type_name!r} Op have types [{given}] that "
    if spec.type_list_attr is not None:
        return words + "are invalid."
    if spec.dtype is not None:
        return words + f"do not match expected type {spec.dtype.name}."
    if _typed_by(definition, spec.type_attr or "") != spec.name and dtype is not None:
        return words + f"do not match type {dtype.name} inferred from earlier arguments."
    return words + "don't all match."


def _type_alone(value: Any) -> str:
    """The dtype that a value has when nothing is asked of it."""
    try:
        return (first_dtype([value]) or constants.convert(value)[1]).name
    except (TypeError, ValueError):
        return "<NOT CONVERTIBLE TO TENSOR>"


def _check_empty(definition: OpDefinition, spec: ArgSpec, stored: dict[str, Any]) -> None:
    """Refuse an empty list where one is too short, and where its elements would have to tell the dtype."""
    least = definition.attrs[spec.number_attr or ""].minimum
    if least:
        _check_minimum(definition, spec.number_attr or "", least, 0)
    if spec.type_attr is not None and spec.type_attr not in stored:
        refuse_empty(definition, spec)


def refuse_empty(definition: OpDefinition, spec: ArgSpec) -> NoReturn:
    """Raise TypeError for an empty list that would have to tell a dtype."""
    raise TypeError(
        f"Don't know how to infer type variable from empty input list passed to input {spec.name!r} of "
        f"{definition.type_name!r} Op.\n"
        + errors.message(
            f"an empty list for {spec.name!r} of op {definition.type_name!r}",
            f"at least one tensor, or the dtype {spec.type_attr!r}",
            f"pass {spec.type_attr}=",
        )
    )


def _convert_one(
    definition: OpDefinition, spec: ArgSpec, value: Any, stored: dict[str, Any], name: str, dtype: dtypes.DType | None
) -> Tensor:
    preferred = None
    if dtype is None and spec.type_attr is not None:
        attr = definition.attrs[spec.type_attr]
        if attr.default is not REQUIRED:
            preferred = attr.default
        elif attr.allowed is not None and dtypes.int32 not in attr.allowed and not _has_numpy_type(value):
            preferred = dtypes.float32 if dtypes.float32 in attr.allowed else None
    if spec.dtype is not None and spec.dtype.is_integer and not fits(value, spec.dtype):
        elements.refuse_range(value, spec.dtype)  # a size or an index: not meant as a pattern of bits
    try:
        tensor = convert_to_tensor(value, dtype, name, preferred, as_ref=spec.is_ref)
        if tensor.dtype in _OF_WIDE and dtype is None and spec.type_attr is not None:
            _refuse_wide(definition, spec, value, tensor.dtype)
        return tensor
    except TypeError as problem:
        usual = ""
        if dtype is not None:
            usual = f"Expected {dtype.name} passed to parameter {spec.name!r} of op {definition.type_name!r}, "
            usual += f"got {elements.shown(value)} of type {type(value).__name__!r} instead.\n"
        kind = elements.WideIntegerError if isinstance(problem, elements.WideIntegerError) else TypeError
        raise kind(f"{usual}{problem}\nOp: {definition.type_name!r}, input {spec.name!r}") from None
    except elements.IntegerRangeError as problem:
        raise elements.IntegerRangeError(f"{problem}\nOp: {definition.type_name!r}, input {spec.name!r}") from None
    except ValueError as problem:
        if isinstance(getattr(value, "dtype", None), dtypes.DType) and dtype is not None and value.dtype.base != dtype:
            raise TypeError(
                f"Input {spec.name!r} of {definition.type_name!r} Op has type {value.dtype.base.name} "
                f"that does not match {_wanted(definition, spec, dtype)}.\n"
                + errors.message(
                    f"{value.dtype.base.name} for input {spec.name!r}", dtype.name, f"tf.cast(x, tf.{dtype.name})"
                )
            ) from None
        usual = "" if isinstance(value, Tensor) else f"Tried to convert {spec.name!r} to a tensor and failed. Error: "
        raise ValueError(f"{usual}{problem}\nOp: {definition.type_name!r}, input {spec.name!r}") from None


_OF_WIDE = (dtypes.uint64, dtypes.float32)
"""What Python's integers beyond 63 bits become, as NumPy has it: alone, and beside smaller ones."""


def _refuse_wide(definition: OpDefinition, spec: ArgSpec, value: Any, dtype: dtypes.DType) -> None:
    """Refuse Python's integers of more than 63 bits where only shorter ones are taken."""
    allowed = definition.attrs[spec.type_attr or ""].allowed
    if allowed is None or dtype in allowed or _has_numpy_type(value) or fits(value, dtypes.int64):
        return
    names = ", ".join(choice.name for choice in allowed)
    # TensorFlow converts to the default of the attribute, if it has one, which says the first; else it says the second.
    raise elements.WideIntegerError(
        "Python int too large to convert to C long\n"
        f"Value passed to parameter {spec.name!r} has DataType {dtype.name} not in list of allowed values: {names}\n"
        + errors.message(
            f"{elements.shown(value)} for input {spec.name!r} of op {definition.type_name!r}",
            f"integers from {-(2**63)} to {2**63 - 1}",
            "a smaller integer",
        )
    )


def _refuse_value(definition: OpDefinition, position: int, tensor: Tensor, wanted: dtypes.DType) -> NoReturn:
    """Refuse an operand of another dtype where ops run at once, as TensorFlow's runtime does."""
    given = tensor.dtype.base
    raise errors.InvalidArgumentError(
        None,
        None,
        f"cannot compute {definition.type_name} as input #{position}(zero-based) was expected to be a {_ctype(wanted)} "
        f"tensor but is a {_ctype(given)} tensor [Op:{definition.type_name}]\n"
        + errors.message(f"a tensor of dtype {given.name}", wanted.name, f"tf.cast(x, tf.{wanted.name})"),
    )


def _ctype(dtype: dtypes.DType) -> str:
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)


def _wanted(definition: OpDefinition, spec: ArgSpec, dtype: dtypes.DType) -> str:
    """The dtype of an input in TensorFlow's words, with the argument that it was taken from."""
    if spec.dtype is not None:
        return f"expected type of {dtype.name}"
    first = _typed_by(definition, spec.type_attr or spec.type_list_attr or "")
    return f"type {dtype.name}" + (f" of argument {first!r}" if first != spec.name else "")


def _has_numpy_type(value: Any) -> bool:
    """Whether a value brings an element type of its own, as NumPy's arrays and scalars do, also inside lists."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (np.ndarray, np.generic))


def _check_dtypes(definition: OpDefinition, tensors: Sequence[Tensor], stored: dict[str, Any]) -> None:
    position = 0
    for spec in definition.inputs:
        if spec.type_list_attr is not None:
            wanted_list = stored[spec.type_list_attr]
            if len(wanted_list) != len(tensors) - position and spec is definition.inputs[-1]:
                raise ValueError(
                    errors.message(
                        f"{len(tensors) - position} tensors for {spec.name!r} of op {definition.type_name!r}",
                        f"{len(wanted_list)}",
                        "pass one per type",
                    )
                )
            count = len(wanted_list)
        else:
            count = stored[spec.number_attr] if spec.number_attr is not None else 1
            wanted_list = ((spec.dtype if spec.dtype is not None else stored.get(spec.type_attr or "")),) * count
        for wanted in wanted_list:
            tensor = tensors[position]
            if tensor.dtype.base != wanted:
                if tensor.has_value:
                    _refuse_value(definition, position, tensor, wanted)
                raise TypeError(
                    f"Input {spec.name!r} of {definition.type_name!r} Op has type {tensor.dtype.base.name} "
                    f"that does not match {_wanted(definition, spec, wanted)}.\n"
                    + errors.message(
                        f"tensor {tensor._label} of dtype {tensor.dtype.base.name} for input {spec.name!r} "
                        f"of op {definition.type_name!r}",
                        wanted.name,
                        f"tf.cast(x, tf.{wanted.name})",
                    )
                )
            if spec.is_ref and not tensor.dtype.is_ref:
                raise TypeError(
                    f"'{definition.type_name}' Op requires that input '{spec.name}' "
                    "be a mutable tensor (e.g.: a tf.Variable)\n"
                    + errors.message(
                        f"tensor {tensor._label}, a value", "the ref of a variable", "pass the tf.Variable itself"
                    )
                )
            position += 1
