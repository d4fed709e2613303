"""``anabranch checkpoint ls|show|diff``: what checkpoints hold, and where two differ."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

import numpy as np

from anabranch.cli import showing
from anabranch.core import errors
from anabranch.core.values import shapes
from anabranch.formats.checkpoints import checkpoint_facts, open_checkpoint
from anabranch.train.saving.checkpoint_state import get_checkpoint_state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ls|show|diff", required=True)
    listing = actions.add_parser("ls", help="the checkpoints of a folder", allow_abbrev=False)
    listing.add_argument("folder")
    showing.add_json(listing)
    show = actions.add_parser("show", help="the tensors of a checkpoint", allow_abbrev=False)
    show.add_argument("checkpoint", help="its prefix, such as logs/model.ckpt-100, or a folder: the latest in it")
    show.add_argument("--tensor", action="append", default=[], metavar="NAME", help="print its values, too")
    show.add_argument("--match", metavar="PATTERN", help="only tensors whose name has this regular expression")
    show.add_argument("--full", action="store_true", help="print all elements")
    showing.add_json(show)
    diff = actions.add_parser("diff", help="where two checkpoints differ; exit status 1 if they do", allow_abbrev=False)
    diff.add_argument("first")
    diff.add_argument("second")
    diff.add_argument("--tolerance", type=float, default=0.0, help="largest difference of values that counts as none")
    showing.add_json(diff)


def run(options: argparse.Namespace) -> int:
    """Do what the options say."""
    if options.action == "ls":
        return _ls(options)
    return _show(options) if options.action == "show" else _diff(options)


# ------------------------------------------------------------------------------------------------------------------- ls
def prefixes(folder: str) -> list[str]:
    """Prefixes of the checkpoints in a folder, oldest first."""
    if not os.path.isdir(folder):
        raise OSError(errors.message(f"{folder!r}", "a folder with checkpoints", "check the path"))
    times: dict[str, float] = {}
    for name in os.listdir(folder):
        if name.endswith(".index"):
            path = os.path.join(folder, name)
            times[path.removesuffix(".index")] = os.path.getmtime(path)
    return sorted(times, key=lambda path: (times[path], path))


def _latest(folder: str) -> str | None:
    """The prefix that the folder's file ``checkpoint`` names, if that is there."""
    try:
        state = get_checkpoint_state(folder)
    except ValueError:  # it names none
        return None
    prefix = None if state is None else state.model_checkpoint_path
    return prefix if prefix and os.path.isfile(prefix + ".index") else None


def _same(prefix: str, other: str | None) -> bool:
    return other is not None and os.path.samefile(f"{prefix}.index", f"{other}.index")


def _ls(options: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    latest = _latest(options.folder)
    for prefix in prefixes(options.folder):
        row: dict[str, Any] = {"prefix": prefix, "latest": _same(prefix, latest)}
        try:
            facts = checkpoint_facts(prefix)
            row["tensors"] = len(facts)
            row["bytes"] = sum(showing.byte_size(dtype, shape) or 0 for dtype, shape in facts.values())
        except errors.OpError as problem:
            row["problem"] = str(problem.message).splitlines()[0]
        rows.append(row)
    if options.json:
        showing.print_json(rows)
        return 0
    if not rows:
        print(f"no checkpoints in {options.folder}")
    for row in rows:
        mark = "*" if row["latest"] else " "
        description = row.get("problem") or f"{row['tensors']} tensors, {showing.size_text(row['bytes'])}"
        print(f"{mark} {row['prefix']}: {description}")
    return 0


def chosen(path: str) -> str:
    """The prefix that an argument means: itself, or a folder's latest checkpoint."""
    if not os.path.isdir(path):
        return path.removesuffix(".index")
    listed = prefixes(path)
    variables = os.path.join(path, "variables", "variables")
    if not listed and os.path.isfile(f"{variables}.index"):
        return variables
    latest = _latest(path) or (listed[-1] if listed else None)
    if latest is None:
        raise OSError(
            errors.message(
                f"{path!r}, a folder without checkpoints", "a checkpoint", "anabranch checkpoint show FOLDER/PREFIX"
            )
        )
    return latest


# ----------------------------------------------------------------------------------------------------------------- show
def _show(options: argparse.Namespace) -> int:
    prefix = chosen(options.checkpoint)
    try:
        pattern = re.compile(options.match) if options.match is not None else None
    except re.error as problem:
        raise ValueError(
            errors.message(f"--match {options.match}: {problem}", "a regular expression", "--match conv")
        ) from None
    with open_checkpoint(prefix) as reader:
        names = sorted(name for name in reader.tensors if pattern is None or pattern.search(name))
        names = [name for name in names if not options.tensor or name in options.tensor]
        unknown = sorted(set(options.tensor) - set(reader.tensors))
        if unknown:
            raise ValueError(
                errors.message(
                    f"--tensor {unknown[0]}",
                    f"one of the {len(reader.tensors)} tensors",
                    "anabranch checkpoint show PREFIX",
                )
            )
        rows: list[dict[str, Any]] = []
        for name in names:
            facts = reader.facts(name)
            row: dict[str, Any] = {
                "name": name,
                "dtype": facts.dtype.name,
                "shape": list(facts.shape),
                "bytes": showing.byte_size(facts.dtype, facts.shape),
            }
            if name in options.tensor:
                row["value"] = reader.read(name)
            rows.append(row)
    if options.json:
        showing.print_json({"prefix": prefix, "tensors": rows})
        return 0
    print(f"{prefix}: {len(rows)} tensors, {showing.size_text(sum(row['bytes'] or 0 for row in rows))}")
    print(showing.table([(row["name"], f"{row['dtype']}{shapes.show(tuple(row['shape']))}") for row in rows], "  "))
    for row in rows:
        if "value" in row:
            print(f"\n{row['name']}")
            print(showing.array_text(row["value"], options.full))
    return 0


# ----------------------------------------------------------------------------------------------------------------- diff
def _diff(options: argparse.Namespace) -> int:
    first, second = chosen(options.first), chosen(options.second)
    with open_checkpoint(first) as one, open_checkpoint(second) as other:
        document: dict[str, Any] = {
            "first": first,
            "second": second,
            "only_first": sorted(set(one.tensors) - set(other.tensors)),
            "only_second": sorted(set(other.tensors) - set(one.tensors)),
            "different": [],
        }
        common = sorted(set(one.tensors) & set(other.tensors))
        for name in common:
            difference = _difference(one, other, name, options.tolerance)
            if difference is not None:
                document["different"].append({"name": name, **difference})
        document["equal"] = len(common) - len(document["different"])
    differs = bool(document["only_first"] or document["only_second"] or document["different"])
    if options.json:
        showing.print_json(document)
        return int(differs)
    for name in document["only_first"]:
        print(f"- {name}")
    for name in document["only_second"]:
        print(f"+ {name}")
    for row in document["different"]:
        print(f"! {row['name']}: {row['told']}")
    print(f"{document['equal']} tensors are equal, {len(document['different'])} differ")
    return int(differs)


def _difference(one: Any, other: Any, name: str, tolerance: float) -> dict[str, Any] | None:
    """How a tensor differs in two checkpoints; None if it does not."""
    a, b = one.facts(name), other.facts(name)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        difference = f"{a.dtype.name}{shapes.show(a.shape)} against {b.dtype.name}{shapes.show(b.shape)}"
        return {"kind": "type", "told": difference}
    left, right = np.asarray(one.read(name)), np.asarray(other.read(name))
    if left.dtype.kind in "OSb" or left.dtype.kind in "iu":
        count = int(np.sum(left != right))
        if left.dtype.kind in "iu" and count:
            most = max(abs(int(x) - int(y)) for x, y in zip(left.ravel(), right.ravel(), strict=True))
            if most <= tolerance:
                return None
        return {"kind": "value", "elements": count, "told": f"{count} elements differ"} if count else None
    kind = np.complex128 if left.dtype.kind == "c" else np.float64
    wide, narrow = left.astype(kind), right.astype(kind)
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide - narrow)
    same = (wide == narrow) | (np.isnan(wide) & np.isnan(narrow)) | (gap <= tolerance)
    count = int(np.sum(~same))
    if not count:
        return None
    largest = float(np.max(np.nan_to_num(gap, nan=np.inf)[~same]))
    return {
        "kind": "value",
        "elements": count,
        "largest": largest,
        "told": f"{count} of {left.size} elements differ, by {largest:.6g} at most",
    }


__all__ = ["add_arguments", "chosen", "prefixes", "run"]
