"""Record the signatures of TensorFlow's ops, one line of text for each.

`python tools/golden/names/op_defs.py OP_DEFS_JSON tests/golden/op_defs.json` reads a file of op definitions (a dict
from op type to inputs, outputs, attributes and flags) and writes `{"types": {set name: dtypes}, "ops": {type: line}}`.
All ops are written, so that an op that is added later is compared at once. A line reads

    inputs: N * T, ref: Ref(T) -> sum: T ; N: int >= 1 ; T: type in $3 ; axis: int = 0 ; stateful

with attributes in their order, allowed values in alphabetical order (sets of dtypes by name, as many ops share them)
and defaults in JSON, floats in single precision. `tests/project/test_op_defs.py` writes the same lines from the
project's own definitions and compares.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

FLAGS = {
    "is_stateful": "stateful",
    "is_commutative": "commutative",
    "is_aggregate": "aggregate",
    "allows_uninitialized_input": "uninitialized",
}


def argument(arg: dict[str, Any]) -> str:
    """An input or output: `name: T`, `name: N * T`, `name: Ref(T)`, `name: [Tlist]`."""
    kind = arg.get("type") or arg.get("type_attr")
    if "type_list_attr" in arg:
        kind = f"[{arg['type_list_attr']}]"
    if arg.get("is_ref"):
        kind = f"Ref({kind})"
    return f"{arg['name']}: {arg['number_attr'] + ' * ' if 'number_attr' in arg else ''}{kind}"


def _single(value: Any) -> Any:
    """Floats as messages hold them, in single precision."""
    if isinstance(value, list):
        return [_single(item) for item in value]
    return struct.unpack("f", struct.pack("f", value))[0]


def attribute(attr: dict[str, Any], types: dict[str, str]) -> str:
    """An attribute: name, kind, allowed values, minimum, default."""
    text = f"{attr['name']}: {attr['type']}"
    if "allowed" in attr:
        allowed = " ".join(sorted(set(attr["allowed"])))
        if attr["type"] in ("type", "list(type)"):
            allowed = types.setdefault(allowed, f"${len(types)}")
        text += f" in {allowed}"
    if attr.get("minimum"):
        text += f" >= {attr['minimum']}"
    if "default" in attr:
        default = attr["default"]
        text += f" = {json.dumps(_single(default) if attr['type'] in ('float', 'list(float)') else default)}"
    return text


def line(op: dict[str, Any], types: dict[str, str]) -> str:
    """The line of an op; new sets of dtypes are added to `types` (set -> name)."""
    parts = [f"{', '.join(map(argument, op['inputs']))} -> {', '.join(map(argument, op['outputs']))}".strip()]
    parts += [attribute(attr, types) for attr in op["attrs"]]
    parts += [flag for key, flag in FLAGS.items() if op.get(key)]
    return " ; ".join(parts)


def main(source: str, target: str) -> None:
    """Writes the file of lines."""
    ops = json.loads(Path(source).read_text(encoding="utf-8"))
    types: dict[str, str] = {}
    lines = {name: line(op, types) for name, op in sorted(ops.items())}
    found = {"types": {name: allowed for allowed, name in types.items()}, "ops": lines}
    Path(target).write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
