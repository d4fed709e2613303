"""Operations by the name of their type, as the modules that TensorFlow generates for ops (``gen_*_ops``) build them.

The arguments mean what they mean there: a name that Python reserves takes a trailing underscore, None stands for the
default of an attribute, an attribute that the inputs decide is not given, a bool is a bool, a list of outputs is a list
whatever its length. Code at this level compares whole messages, so that an exception's text is TensorFlow's line alone;
what was given, what is expected and what to write instead follow it as the exception's note, which tracebacks show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph import build
from anabranch.core.graph.tensor import OpView

_TYPE_FIELDS = ("type", "type_attr", "type_list_attr")


class OpDefLibrary:
    """Operations that are applied by the name of their type."""

    def __init__(self) -> None:
        self._ops: dict[str, Any] = {}

    def add_op(self, op_def: Any) -> None:
        """Check an ``OpDef`` and keep it; its type itself is defined by ``class MyOp(tf.Op)``.

        Raises:
            TypeError: an argument names no type, more than one, or an attribute that is missing or of another kind.
            RuntimeError: another definition was added under that name.
        """
        if self._ops.get(op_def.name, op_def) != op_def:
            raise RuntimeError(
                f"Op name {op_def.name} registered twice with different definitions\n"
                + errors.message(
                    f"two definitions of {op_def.name!r}", "one definition of each name", "remove one or rename it"
                )
            )
        with _one_line():
            for argument in [*op_def.input_arg, *op_def.output_arg]:
                _check_argument(op_def, argument)
        self._ops[op_def.name] = op_def

    def add_op_list(self, op_list: Any) -> None:
        """Check and keep each ``OpDef`` of a list."""
        for op_def in op_list.op:
            self.add_op(op_def)

    def apply_op(self, op_type_name: str, name: str | None = None, **keywords: Any) -> Any:
        """Build an operation from its inputs and attributes; its outputs, or itself if it has none."""
        structure, stateful, op = self._apply_op_helper(op_type_name, name, **keywords)
        if len(structure) != 1 or structure[0] is None:
            return build.results(op) if structure else op
        return list(op.outputs) or (op if stateful else [])

    def _apply_op_helper(
        self, op_type_name: str, name: str | None = None, **keywords: Any
    ) -> tuple[list[int | None], bool, OpView]:
        """Build an operation: sizes of its output lists (None for single tensors), whether it has effects, the op."""
        with _one_line():
            definition = opdef.find(op_type_name)
            if definition is None:
                raise RuntimeError(
                    f"Unrecognized Op name {op_type_name}\n"
                    + errors.message(
                        f"op type {op_type_name!r}", "a type that is defined", f"class {op_type_name}(tf.Op): ..."
                    )
                )
            self._check_version(op_type_name)
            inputs, attrs = _arguments(definition, keywords)
            op = build.build_operation(op_type_name, inputs, attrs, name)
        structure = [spec.count(op._attrs) if spec.is_list else None for spec in definition.outputs]
        return structure, definition.effect is not opdef.PURE, op

    def _check_version(self, op_type_name: str) -> None:
        """Refuse an op that the version of the default graph does not have any more."""
        deprecation = getattr(self._ops.get(op_type_name), "deprecation", None)
        if deprecation is None or not deprecation.version or tf.executing_eagerly():
            return
        producer = tf.get_default_graph().graph_def_versions.producer
        if producer >= deprecation.version:
            raise NotImplementedError(
                f"Op {op_type_name} is not available in GraphDef version {producer}. "
                f"It has been removed in version {deprecation.version}. {deprecation.explanation}."
            )


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Leave the first line of a Python exception as its text, and make the rest its note."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as problem:
        line, _, rest = str(problem).partition("\n")
        if rest and not line.startswith("Given: ") and len(problem.args) == 1:
            problem.args = (line,)
            problem.add_note(rest)
        raise


def _check_argument(op_def: Any, argument: Any) -> None:
    kinds = {attr.name: attr.type for attr in op_def.attr}
    fields = sum(bool(getattr(argument, field)) for field in _TYPE_FIELDS)
    if fields != 1:
        raise TypeError(f"Arg {argument.name!r} of {op_def.name!r} must have one type field not {fields}")
    for field, kind in (("type_attr", "type"), ("type_list_attr", "list(type)"), ("number_attr", "int")):
        key = getattr(argument, field)
        if key and key not in kinds:
            raise TypeError(f"Inconsistent OpDef for {op_def.name!r}, missing attr {key!r}")
        if key and kinds[key] != kind:
            raise TypeError(f"Attr {key!r} of {op_def.name!r} used as a {field} but has type {kinds[key]}")


def _arguments(definition: opdef.OpDefinition, keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Inputs by position, and attributes."""
    left = dict(keywords)
    inputs = []
    for spec in definition.inputs:
        key = spec.name if spec.name in left else spec.name + "_"
        if key not in left:
            raise TypeError(f"No argument for input {spec.name}")
        inputs.append(left.pop(key))
    _check_lists(definition, inputs)
    attrs = {}
    for key, value in left.items():
        attr = definition.attrs.get(key) or definition.attrs.get(key.removesuffix("_"))
        name = key if key in definition.attrs or attr is None else key.removesuffix("_")
        if attr is None:
            attrs[name] = value
            continue
        if name in definition.inferred_attrs:  # type: ignore[attr-defined]
            raise TypeError(f"Should not specify value for inferred attr {name!r}.")
        if value is None and attr.default is not opdef.REQUIRED:
            continue
        if attr.element == "bool":
            _check_bools(name, value if attr.is_list and isinstance(value, Sequence) else [value])
        if value is None and attr.element != "shape":
            attr.convert(value, name, definition.type_name)
        attrs[name] = value
    return inputs, attrs


def _check_lists(definition: opdef.OpDefinition, inputs: list[Any]) -> None:
    """Refuse an empty list from which the type of later inputs would be taken."""
    typed: set[str] = set()
    for spec, value in zip(definition.inputs, inputs, strict=True):
        decides = spec.number_attr is not None and spec.type_attr is not None and spec.type_attr not in typed
        if decides and value in ([], ()) and not definition.attrs[spec.number_attr or ""].minimum:
            build.refuse_empty(definition, spec)
        typed.add(spec.type_attr or "")


def _check_bools(name: str, values: Sequence[Any]) -> None:
    for value in values:
        if not isinstance(value, bool):
            raise TypeError(f"Expected bool for argument {name!r} not {value!r}.")
