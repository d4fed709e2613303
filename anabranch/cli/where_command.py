"""``anabranch where NAME...``: in which file and line public names and op types are defined."""

from __future__ import annotations

import argparse
from typing import Any

from anabranch.cli import definitions, showing
from anabranch.cli.definitions import OpType, Place, PublicName

_MOST_FILES = 12  # of a namespace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the names and the options."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="a public name (tf.image.resize_bilinear, tf.train.Saver.save), its last part, or an op type (Conv2D)",
    )
    showing.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the places of each name; the first name that is unknown ends the command."""
    answers = {name: definitions.find(name) for name in options.names}
    if options.json:
        showing.print_json({name: [_document(item) for item in items] for name, items in answers.items()})
        return 0
    for position, items in enumerate(answers.values()):
        if position:
            print()
        # A function that builds several op types is shown with one line for each of them.
        brief = sum(isinstance(item, OpType) for item in items) > 1
        print(showing.table([row for item in items for row in _rows(item)[: 1 if brief else None]]))
    return 0


def _document(item: OpType | PublicName) -> dict[str, Any]:
    if isinstance(item, PublicName):
        return {"name": item.name, "kind": item.kind, **_place(item.place), "op_types": item.op_types}
    return {
        "name": item.definition.type_name,
        "kind": "op type",
        **_place(item.place),
        "kernel": _place(item.kernel),
        "host_kernel": _place(item.host_kernel),
        "gradient": {"text": definitions.gradient_text(item.definition), **_place(item.gradient)},
        "test_row": _place(item.test_row),
        "public_names": item.public_names,
    }


def _place(place: Place | None) -> dict[str, Any]:
    return {"file": place.relative() if place else None, "line": place.line if place else None}


def _rows(item: OpType | PublicName) -> list[tuple[str, str, str]]:
    if isinstance(item, PublicName):
        if item.kind == "namespace" and item.place is None:
            files = definitions.publishers(item.name.removeprefix("tf."))
            names = [("", f"{count} names", file) for file, count in files.items()]
            return [(item.name, item.kind, f"of {len(files)} files"), *names[:_MOST_FILES]]
        return [(item.name, item.kind, _shown(item.place))]
    rows = [(item.definition.type_name, "op type", _shown(item.place))]
    for part, place in (("kernel", item.kernel), ("host kernel", item.host_kernel)):
        if place is not None:
            rows.append(("", part, _shown(place)))
    text = definitions.gradient_text(item.definition)
    rows.append(("", "gradient", _shown(item.gradient) if item.gradient else text))
    if item.test_row is not None:
        rows.append(("", "test row", _shown(item.test_row)))
    if item.public_names:
        rows.append(("", "public", ", ".join(item.public_names[:6])))
    return rows


def _shown(place: Place | None) -> str:
    return str(place) if place is not None else "no Python source"
