"""Compares every message and enum of `anabranch.core.protos` with those of an installed TensorFlow.

Run it with the Python of an environment that holds TensorFlow (it is never a dependency of ours):

    PATH_TO_THAT_ENVIRONMENT/bin/python tools/check_protos.py

Compared are field.numbers, names, types, repetition, presence, packing, map types and oneofs, and enum values.
All that ours have must be TensorFlow's; what TensorFlow has more is listed and fails the check too, unless the
TensorFlow installed is newer than the one named in `CHECKED_WITH`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = "anabranch_tf"
# Where TensorFlow keeps top-level messages; error codes and the coordination service have packages of their own.
THEIRS = ("tensorflow", "tensorflow.error", "tsl", "tsl.error")
CHECKED_WITH = "2.21"


def load_all_of_tensorflow() -> str:
    """Loads every generated module below `tensorflow.core`; returns TensorFlow's version."""
    tensorflow = importlib.import_module("tensorflow")
    core = importlib.import_module("tensorflow.core")
    for found in pkgutil.walk_packages(core.__path__, "tensorflow.core."):
        if found.name.endswith("_pb2"):
            try:
                importlib.import_module(found.name)
            except (ImportError, TypeError):
                continue  # A few modules of its wheel need others that it does not ship; none of them is ours.
    return str(tensorflow.__version__)


def local_name(full_name: str) -> str:
    """A message's name without the package, so that both sides compare equal."""
    for package in (OURS, *sorted(THEIRS, key=len, reverse=True)):
        if full_name.startswith(package + "."):
            return full_name[len(package) + 1 :]
    return full_name


def field_facts(field: Any) -> tuple[Any, ...]:
    """All that decides how a field looks on the wire and in text."""
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    kind = field.message_type or field.enum_type
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        # Presence inside an entry differs between proto2 and proto3 and changes nothing that is written.
        target: Any = ("map", *((entry[part].type, field_facts(entry[part])[-1]) for part in ("key", "value")))
    else:
        target = local_name(kind.full_name) if kind is not None else None
    packed = repeated and getattr(field, "is_packed", None)
    oneof = field.containing_oneof.name if field.containing_oneof is not None else None
    if oneof == f"_{field.name}":
        oneof = None  # proto3 writes `optional` as a oneof of one field.
    return field.name, field.number, field.type, repeated, field.has_presence, packed, oneof, target


def compare_messages(ours: Any, theirs: Any) -> Iterator[tuple[str, str]]:
    """Pairs of ('wrong' or 'lacks', sentence)."""
    own = {field.name: field_facts(field) for field in ours.fields}
    other = {field.name: field_facts(field) for field in theirs.fields}
    where = local_name(ours.full_name)
    for name, facts in own.items():
        if other.get(name) != facts:
            yield "wrong", f"{where}.{name}: ours {facts}, TensorFlow's {other.get(name, 'absent')}"
    for name in other.keys() - own.keys():
        yield "lacks", f"{where}.{name}: {other[name]}"
    for kind, compare in (("nested_types", compare_messages), ("enum_types", compare_enums)):
        nested, known = (
            {item.name: item for item in getattr(side, kind) if not item.GetOptions().map_entry}
            if kind == "nested_types"
            else {item.name: item for item in getattr(side, kind)}
            for side in (ours, theirs)
        )
        for name, item in nested.items():
            if name in known:
                yield from compare(item, known[name])
            else:
                yield "wrong", f"{where}.{name}: TensorFlow has no such type"
        for name in known.keys() - nested.keys():
            yield "lacks", f"{where}.{name}"


def compare_enums(ours: Any, theirs: Any) -> Iterator[tuple[str, str]]:
    """Pairs of ('wrong' or 'lacks', sentence)."""
    own, other = ({value.name: value.number for value in side.values} for side in (ours, theirs))
    where = local_name(ours.full_name)
    for name, number in own.items():
        if other.get(name) != number:
            yield "wrong", f"{where}.{name}: ours {number}, TensorFlow's {other.get(name, 'absent')}"
    for name in other.keys() - own.keys():
        yield "lacks", f"{where}.{name} = {other[name]}"


def main() -> int:
    """Entry point; returns the exit status."""
    version = load_all_of_tensorflow()
    sys.path.insert(0, str(ROOT))
    protos = importlib.import_module("anabranch.core.protos")
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.Default()

    def find(kind: str, name: str) -> Any:
        for package in THEIRS:
            try:
                return getattr(pool, f"Find{kind}TypeByName")(f"{package}.{name}")
            except KeyError:
                continue
        return None

    findings: list[tuple[str, str]] = []
    checked = 0
    for module_name in protos.MODULES:
        file = getattr(protos, module_name).DESCRIPTOR
        pairs = [("Message", item, compare_messages) for item in file.message_types_by_name.values()]
        pairs += [("Enum", item, compare_enums) for item in file.enum_types_by_name.values()]
        for kind, item, compare in pairs:
            theirs = find(kind, item.name)
            checked += 1
            if theirs is None:
                findings.append(("wrong", f"{item.name}: TensorFlow has no such {kind.lower()}"))
            else:
                findings.extend(compare(item, theirs))
    for severity, sentence in findings:
        print(f"{severity}: {sentence}")
    same_version = version.startswith(CHECKED_WITH + ".")
    failures = [item for item in findings if item[0] == "wrong" or same_version]
    print(f"{checked} top-level types compared with TensorFlow {version}: {len(findings)} differences")
    return 1 if failures or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
