"""``anabranch graph summary|to-text|freeze|ops``: graphs in files."""

from __future__ import annotations

import argparse
import collections
import os
import re
import sys
from typing import Any, NamedTuple

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from anabranch.cli import showing
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph.graph import Graph
from anabranch.core.graphdef import graph_util
from anabranch.core.protos import graph_pb2, saved_model_pb2
from anabranch.core.values import dtypes, shapes
from anabranch.saved_model import files, loaded
from anabranch.session import Session
from anabranch.train.graph_files import write_message
from anabranch.train.meta_graph_import import import_meta_graph

_OP_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_>.]*\Z")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


class Found(NamedTuple):
    """A graph in a file."""

    kind: str
    """``GraphDef``, ``MetaGraphDef`` or ``SavedModel``."""
    message: Any
    graph_def: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the four actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="summary|to-text|freeze|ops", required=True)
    what = "a GraphDef or MetaGraphDef, binary or text, or the folder of a SavedModel"
    for name, summary in (
        ("summary", "nodes, inputs, outputs, variables, constants, functions"),
        ("to-text", "the whole file as text"),
        ("ops", "op types, and which are not defined here; exit status 1 if there are such"),
    ):
        child = actions.add_parser(name, help=summary, allow_abbrev=False)
        child.add_argument("file", help=what)
        child.add_argument("--tags", help="tags of a SavedModel's MetaGraph, separated by commas")
        if name == "to-text":
            child.add_argument("--output", "-o", metavar="FILE", help="write there instead of to standard output")
        else:
            showing.add_json(child)
    freeze = actions.add_parser(
        "freeze", help="a model as a GraphDef with constants in place of variables", allow_abbrev=False
    )
    freeze.add_argument(
        "file", metavar="model", help="folder of a SavedModel, or a checkpoint's prefix beside its .meta"
    )
    freeze.add_argument("--tags", help="tags of its MetaGraph, separated by commas")
    freeze.add_argument("--signature", default="serving_default", help="its name (default: serving_default)")
    freeze.add_argument("--outputs", help="nodes to keep, separated by commas: of a checkpoint's graph, needed there")
    freeze.add_argument(
        "--output", "-o", required=True, metavar="FILE", help="where to write it; text if it ends in txt"
    )
    showing.add_json(freeze)


def run(options: argparse.Namespace) -> int:
    """Do what the options say."""
    if options.action == "freeze":
        return _freeze(options)
    graph_read = read_graph(options.file, options.tags)
    if options.action == "summary":
        return _summary(options, graph_read)
    return _ops(options, graph_read) if options.action == "ops" else _to_text(options, graph_read)


# -------------------------------------------------------------------------------------------------------------- reading
def read_graph(path: str, tags: str | None = None) -> Found:
    """The graph in a file: what kind of message it is follows from its name and from which one it can be."""
    if os.path.isdir(path) or os.path.basename(path).startswith("saved_model.pb"):
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        wanted = None if tags is None else [tag for tag in tags.split(",") if tag]
        meta = files.choose_meta_graph(files.read_saved_model(folder), wanted, folder)
        return Found("SavedModel", meta, meta.graph_def)
    if not os.path.isfile(path):
        raise OSError(errors.message(f"{path!r}", "a file with a graph, or a SavedModel's folder", "check the path"))
    with open(path, "rb") as stream:
        data = stream.read()
    for kind, name in ((graph_pb2.GraphDef, "GraphDef"), (saved_model_pb2.MetaGraphDef, "MetaGraphDef")):
        for parse in (kind.FromString, lambda data, kind=kind: text_format.Parse(data, kind())):
            try:
                proto = parse(data)
            except (DecodeError, text_format.ParseError, UnicodeDecodeError, ValueError):
                continue
            graph = proto if name == "GraphDef" else proto.graph_def
            if graph.node and all(node.name and _OP_TYPE.match(node.op) for node in graph.node):
                return Found(name, proto, graph)
    raise OSError(
        errors.message(
            f"{path!r} of {len(data)} bytes, in which no graph is found",
            "a GraphDef or a MetaGraphDef with nodes, binary or text",
            "check that the file is whole and holds a graph (a checkpoint's is in the file that ends in .meta)",
        )
    )


def _all_nodes(graph: Any) -> list[Any]:
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


# -------------------------------------------------------------------------------------------------------------- actions
def _summary(options: argparse.Namespace, source: Found) -> int:
    graph = source.graph_def
    consumed = {graph_util.node_name(text) for node in graph.node for text in node.input}
    feeds = [node for node in graph.node if node.op in ("Placeholder", "PlaceholderWithDefault", "PlaceholderV2")]
    constants = [node for node in _all_nodes(graph) if node.op == "Const"]
    variables = [node for node in graph.node if node.op in _VARIABLES]
    types = collections.Counter(node.op for node in graph.node)
    document = {
        "file": options.file,
        "kind": source.kind,
        "producer": graph.versions.producer,
        "nodes": len(graph.node),
        "functions": len(graph.library.function),
        "op_types": dict(types.most_common()),
        "inputs": [_described(node) for node in feeds],
        "outputs": [
            {"name": node.name, "op": node.op}
            for node in graph.node
            if node.name not in consumed and node.op not in ("Const", "NoOp", *_VARIABLES)
        ],
        "variables": [_described(node) for node in variables],
        "constant_bytes": sum(node.attr["value"].tensor.ByteSize() for node in constants),
        "bytes": graph.ByteSize(),
    }
    if options.json:
        showing.print_json(document)
        return 0
    print(f"{source.kind} of {showing.size_text(document['bytes'])}, written by version {document['producer']}")
    print(f"{document['nodes']} nodes, {document['functions']} functions, {len(types)} op types")
    print(f"constants: {len(constants)}, {showing.size_text(document['constant_bytes'])}")
    for part in ("inputs", "variables"):
        rows = [(item["name"], f"{item['dtype']}{item['shape_text']}") for item in document[part]]
        print(f"{part}: {len(rows)}")
        if rows:
            print(showing.table(rows, "  "))
    print(f"outputs (nodes that no other takes): {len(document['outputs'])}")
    print(showing.table([(item["name"], item["op"]) for item in document["outputs"]], "  "))
    print("op types")
    print(showing.table([(count, name) for name, count in types.most_common()], "  "))
    return 0


def _described(node: Any) -> dict[str, Any]:
    dtype = dtypes.as_dtype(int(node.attr["dtype"].type)).name if node.attr["dtype"].type else None
    raw = shapes.as_raw(node.attr["shape"].shape) if "shape" in node.attr else None
    return {
        "name": node.name,
        "dtype": dtype,
        "shape": showing.shape_list(raw),
        "shape_text": shapes.show(raw),
    }


def _ops(options: argparse.Namespace, source: Found) -> int:
    functions = {function.signature.name for function in source.graph_def.library.function}
    counts = collections.Counter(node.op for node in _all_nodes(source.graph_def) if node.op not in functions)
    missing = {name: count for name, count in counts.items() if opdef.find(name) is None}
    examples = {name: [n.name for n in _all_nodes(source.graph_def) if n.op == name][:3] for name in missing}
    if options.json:
        showing.print_json(
            {
                "op_types": dict(sorted(counts.items())),
                "undefined": {name: {"count": missing[name], "nodes": examples[name]} for name in sorted(missing)},
            }
        )
        return int(bool(missing))
    rows = [(count, name, "" if name not in missing else "not defined here") for name, count in counts.most_common()]
    print(showing.table(rows))
    if missing:
        print(f"\n{len(missing)} of {len(counts)} op types are not defined here:")
        for name in sorted(missing):
            print(f"  {name}: {missing[name]} nodes ({', '.join(examples[name])})")
    else:
        print(f"\nall {len(counts)} op types are defined")
    return int(bool(missing))


def _to_text(options: argparse.Namespace, source: Found) -> int:
    text = text_format.MessageToString(source.message)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        sys.stdout.write(text)
    return 0


def _freeze(options: argparse.Namespace) -> int:
    meta = options.file.removesuffix(".meta") + ".meta"
    if not os.path.isdir(options.file) and os.path.isfile(meta):
        frozen, inputs, outputs = _frozen_checkpoint(meta, options)
    else:
        frozen, inputs, outputs = _frozen_model(options)
    document = {
        "output": options.output,
        "nodes": len(frozen.node),
        "bytes": frozen.ByteSize(),
        "inputs": inputs,
        "outputs": outputs,
    }
    write_message(options.output, frozen, as_text=options.output.endswith("txt"))
    if options.json:
        showing.print_json(document)
        return 0
    print(f"{options.output}: {document['nodes']} nodes, {showing.size_text(frozen.ByteSize())}")
    for part, names in (("inputs", inputs), ("outputs", outputs)):
        print(part)
        print(showing.table(names.items(), "  "))
    return 0


def _frozen_model(options: argparse.Namespace) -> tuple[Any, dict[str, str], dict[str, str]]:
    """A signature of a SavedModel as a GraphDef, and the names of its tensors."""
    tags = None if options.tags is None else [tag for tag in options.tags.split(",") if tag]
    with loaded.load(options.file, tags) as model:
        signature = model.signatures.get(options.signature)
        if signature is None:
            raise ValueError(
                errors.message(
                    f"--signature {options.signature}",
                    f"one of {sorted(model.signatures)}",
                    "--signature NAME with one of these",
                )
            )
        if not hasattr(signature, "outputs"):
            raise signature.problem
        tensors = [*signature.outputs.values(), *signature.inputs.values()]
        frozen = graph_util.convert_variables_to_constants(
            model.session, model.graph.as_graph_def(), sorted({tensor.op.name for tensor in tensors})
        )
        inputs = {name: tensor.name for name, tensor in signature.inputs.items()}
        return frozen, inputs, {name: tensor.name for name, tensor in signature.outputs.items()}


def _frozen_checkpoint(meta: str, options: argparse.Namespace) -> tuple[Any, dict[str, str], dict[str, str]]:
    """The part of a checkpoint's graph that the outputs need, as a GraphDef, and the names of its tensors."""
    nodes = [name.partition(":")[0] for name in (options.outputs or "").split(",") if name]
    if not nodes:
        raise ValueError(
            errors.message(
                f"the checkpoint {meta.removesuffix('.meta')!r} without --outputs",
                "names of the nodes that are fetched",
                "--outputs logits; `anabranch graph summary` lists nodes that no other takes",
            )
        )
    with Graph().as_default() as graph, Session() as session:
        saver = import_meta_graph(meta, clear_devices=True)
        if saver is not None:
            saver.restore(session, meta.removesuffix(".meta"))
        unknown = [name for name in nodes if name not in {op.name for op in graph.get_operations()}]
        if unknown:
            raise ValueError(
                errors.message(f"--outputs {unknown[0]}", "nodes of the graph", "`anabranch graph to-text` shows them")
            )
        frozen = graph_util.convert_variables_to_constants(session, graph.as_graph_def(), nodes)
    feeds = [node.name for node in frozen.node if node.op.startswith("Placeholder")]
    return frozen, {name: f"{name}:0" for name in feeds}, {name: f"{name}:0" for name in nodes}


__all__ = ["Found", "add_arguments", "read_graph", "run"]
