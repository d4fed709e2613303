"""``anabranch saved-model show|run``: what a SavedModel holds, and calls of its signatures."""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.cli import showing
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.values import budgets, dtypes, shapes
from anabranch.formats.checkpoints import checkpoint_facts
from anabranch.saved_model import files, loaded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="show|run", required=True)
    show = actions.add_parser("show", help="tags, signatures, variables, assets, op types", allow_abbrev=False)
    show.add_argument("model", help="folder of the SavedModel")
    show.add_argument("--tags", help="only the MetaGraph with these tags, separated by commas")
    show.add_argument("--variables", action="store_true", help="list the variables of the checkpoint")
    showing.add_json(show)
    call = actions.add_parser(
        "run",
        help="call a signature",
        allow_abbrev=False,
        epilog="example: anabranch saved-model run model --input 'x=[[1.0, 2.0]]' --input ids=@ids.npy",
    )
    call.add_argument("model", help="folder of the SavedModel")
    call.add_argument("--tags", help="tags of the MetaGraph, separated by commas")
    call.add_argument("--signature", default="serving_default", help="its name (default: serving_default)")
    call.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input: JSON, or @FILE.npy, or @FILE.npz:KEY; may be given several times",
    )
    call.add_argument("--save", metavar="FILE.npz", help="write the outputs to a file")
    call.add_argument("--full", action="store_true", help="print all elements of the outputs")
    showing.add_json(call)


def run(options: argparse.Namespace) -> int:
    """Do what the options say."""
    return _show(options) if options.action == "show" else _call(options)


def _tags(text: str | None) -> list[str] | None:
    return None if text is None else [tag for tag in text.split(",") if tag]


# ----------------------------------------------------------------------------------------------------------------- show
def _show(options: argparse.Namespace) -> int:
    model = files.read_saved_model(options.model)
    chosen = model.meta_graphs
    if options.tags is not None:
        chosen = [files.choose_meta_graph(model, _tags(options.tags), options.model)]
    document: dict[str, Any] = {"path": options.model, "meta_graphs": [_meta(meta) for meta in chosen]}
    facts = {}
    if files.has_variables(options.model):
        facts = checkpoint_facts(files.variables_prefix(options.model))
    document["variables"] = [
        {"name": name, "dtype": dtype.name, "shape": list(shape)}
        for name, (dtype, shape) in sorted(facts.items())
        if name not in ("_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter/.ATTRIBUTES/VARIABLE_VALUE")
    ]
    if options.json:
        showing.print_json(document)
        return 0
    for meta in document["meta_graphs"]:
        _print_meta(meta)
    sizes = [showing.byte_size(dtype, shape) or 0 for dtype, shape in facts.values()]
    print(f"variables: {len(document['variables'])} tensors, {showing.size_text(sum(sizes))}")
    if options.variables:
        print(
            showing.table(
                [
                    (item["name"], f"{item['dtype']}{shapes.show(tuple(item['shape']))}")
                    for item in document["variables"]
                ],
                "  ",
            )
        )
    return 0


def _meta(meta: Any) -> dict[str, Any]:
    nodes = [*meta.graph_def.node, *(node for item in meta.graph_def.library.function for node in item.node_def)]
    functions = {item.signature.name for item in meta.graph_def.library.function}
    types = collections.Counter(node.op for node in nodes if node.op not in functions)
    return {
        "tags": list(meta.meta_info_def.tags),
        "written_by": meta.meta_info_def.tensorflow_version,
        "kind": "objects and functions" if meta.object_graph_def.nodes else "graph",
        "nodes": len(meta.graph_def.node),
        "functions": len(functions),
        "signatures": {
            name: {
                "method": signature.method_name,
                "inputs": {key: _info(info) for key, info in sorted(signature.inputs.items())},
                "outputs": {key: _info(info) for key, info in sorted(signature.outputs.items())},
            }
            for name, signature in sorted(meta.signature_def.items())
        },
        "assets": [asset.filename for asset in files.asset_files(meta)],
        "op_types": len(types),
        "undefined_op_types": sorted(name for name in types if opdef.find(name) is None),
    }


def _info(info: Any) -> dict[str, Any]:
    return {
        "tensor": info.name or info.coo_sparse.values_tensor_name,
        "dtype": dtypes.as_dtype(int(info.dtype)).name if info.dtype else None,
        "shape": showing.shape_list(shapes.as_raw(info.tensor_shape)),
    }


def _print_meta(meta: dict[str, Any]) -> None:
    print(f"MetaGraph {', '.join(meta['tags']) or '(no tags)'}, written by TensorFlow {meta['written_by'] or '?'}")
    print(f"  {meta['nodes']} nodes, {meta['functions']} functions, {meta['op_types']} op types ({meta['kind']})")
    for name, signature in meta["signatures"].items():
        print(f"  signature {name} ({signature['method'] or 'no method'})")
        for part in ("inputs", "outputs"):
            rows = [
                (key, (info["dtype"] or "operation") + shapes.show(_raw(info["shape"])), info["tensor"])
                for key, info in signature[part].items()
            ]
            if rows:
                print(f"    {part}")
                print(showing.table(rows, "      "))
    if meta["assets"]:
        print(f"  assets: {', '.join(meta['assets'])}")
    if meta["undefined_op_types"]:
        print(f"  op types that are not defined here: {', '.join(meta['undefined_op_types'])}")


def _raw(shape: list[int | None] | None) -> shapes.RawShape:
    return None if shape is None else tuple(shape)


# ------------------------------------------------------------------------------------------------------------------ run
def _call(options: argparse.Namespace) -> int:
    with loaded.load(options.model, _tags(options.tags)) as model:
        if options.signature not in model.signatures:
            raise ValueError(
                errors.message(
                    f"--signature {options.signature}",
                    f"one of {sorted(model.signatures)}",
                    "anabranch saved-model show MODEL lists them",
                )
            )
        signature = model.signatures[options.signature]
        tensors = getattr(signature, "inputs", {})
        values = dict(_input(text, tensors) for text in options.input)
        outputs = signature(**values)
    if options.save:
        arrays: dict[str, Any] = {}
        for name, value in outputs.items():
            array = np.asarray(value)
            arrays[name] = (
                np.array([bytes(item) for item in array.ravel()]).reshape(array.shape) if _text(array) else array
            )
        np.savez(options.save, **arrays)
    if options.json:
        showing.print_json({name: {"dtype": _name(value), "value": value} for name, value in outputs.items()})
        return 0
    for name, value in outputs.items():
        print(f"{name}: {_name(value)}{shapes.show(np.shape(value))}")
        print(showing.array_text(value, options.full))
    return 0


def _text(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "OS"


def _name(value: Any) -> str:
    return "string" if _text(value) else str(np.asarray(value).dtype)


def _input(text: str, tensors: dict[str, Any]) -> tuple[str, Any]:
    name, equals, given = text.partition("=")
    if not equals or name not in tensors:
        raise ValueError(
            errors.message(
                f"--input {text}",
                f"NAME=VALUE with a name among {sorted(tensors)}",
                f"--input '{next(iter(tensors), 'x')}=[1, 2]', or =@FILE.npy",
            )
        )
    dtype = tensors[name].dtype.base
    if given.startswith("@"):
        value = _from_file(given[1:])
    else:
        try:
            value = json.loads(given)
        except json.JSONDecodeError as problem:
            if dtype.name != "string":
                raise ValueError(
                    errors.message(f"--input {text}, which is no JSON ({problem})", "JSON", "x=[[1, 2], [3, 4]]")
                ) from None
            value = given  # a plain text
    if dtype.name == "string":
        return name, np.array(value, object)
    return name, np.asarray(value, dtype.np)


def _from_file(path: str) -> Any:
    file, _, key = path.partition(".npz:")
    loaded = np.load(f"{file}.npz" if key else path, allow_pickle=False)  # no code from files
    if isinstance(loaded, np.ndarray):
        return loaded.astype(object) if loaded.dtype.kind == "S" else loaded
    keys: Sequence[str] = list(loaded)
    if key not in keys:
        raise ValueError(errors.message(f"@{path}", f"@FILE.npz:KEY with a key among {keys}", "name the array"))
    member = loaded.zip.getinfo(f"{key}.npy" if f"{key}.npy" in loaded.zip.namelist() else key)
    budgets.require(member.file_size, f"@{path}, {member.compress_size} bytes")
    return loaded[key]


__all__ = ["add_arguments", "run"]
