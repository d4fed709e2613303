"""The files of a SavedModel: finding and reading the description, and paths that may not leave the model's folder.

Policy. A model is a stranger's folder. Its description is read as a protobuf message, whose size the file bounds; no
other code than the parser's runs. An asset is a file below the folder ``assets``: a name that is absolute, climbs with
``..`` or leads out by a symbolic link is refused before anything opens it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError

from anabranch.core import errors, file_errors
from anabranch.core.contract.api import public
from anabranch.core.protos import saved_model_pb2
from anabranch.saved_model import constants
from anabranch.train.graph_files import read_message


@public(
    "saved_model.loader.maybe_saved_model_directory",
    "saved_model.maybe_saved_model_directory",
    "saved_model.contains_saved_model",
)
def maybe_saved_model_directory(export_dir: Any) -> bool:
    """Whether the folder holds a file ``saved_model.pb`` or ``saved_model.pbtxt``."""
    return _description(file_errors.local(export_dir)) is not None


def _description(folder: str) -> str | None:
    for name in (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    return None


def read_saved_model(export_dir: Any) -> Any:
    """The ``SavedModel`` message of a folder.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    folder = file_errors.local(export_dir)
    path = _description(folder)
    if path is None:
        raise OSError(
            f"SavedModel file does not exist at: {folder}{os.path.sep}"
            f"{{{constants.SAVED_MODEL_FILENAME_PBTXT}|{constants.SAVED_MODEL_FILENAME_PB}}}\n"
            + errors.message(f"{folder!r}", "the folder of a SavedModel", "check the path")
        )
    model = read_message(path, saved_model_pb2.SavedModel, "SavedModel")
    if model.saved_model_schema_version > constants.SAVED_MODEL_SCHEMA_VERSION:
        raise OSError(
            errors.message(
                f"{path!r} of schema version {model.saved_model_schema_version}",
                f"version {constants.SAVED_MODEL_SCHEMA_VERSION}",
                "save the model with an older program",
            )
        )
    return model


def choose_meta_graph(model: Any, tags: Iterable[str] | None, folder: str) -> Any:
    """The MetaGraph of a SavedModel that has exactly the given tags; the only one if ``tags`` is None.

    Raises:
        RuntimeError: there is none, or tags are needed.
    """
    available = [sorted(meta.meta_info_def.tags) for meta in model.meta_graphs]
    if tags is None:
        if len(model.meta_graphs) == 1:
            return model.meta_graphs[0]
        serving = [meta for meta in model.meta_graphs if list(meta.meta_info_def.tags) == ["serve"]]
        if len(serving) == 1:
            return serving[0]
        raise RuntimeError(
            errors.message(
                f"no tags for the SavedModel {folder!r} with {len(available)} MetaGraphs",
                f"one of the tag sets {available}",
                f"tags={available[0] if available else ['serve']}",
            )
        )
    wanted = {tags} if isinstance(tags, str) else set(tags)
    for meta in model.meta_graphs:
        if set(meta.meta_info_def.tags) == wanted:
            return meta
    named = str(sorted(wanted)).strip("[]")
    raise RuntimeError(
        f"MetaGraphDef associated with tags {named} could not be found in SavedModel. To inspect available tag-sets in "
        "the SavedModel, please use the SavedModel CLI: `saved_model_cli`\n"
        + errors.message(
            f"tags {sorted(wanted)} for {folder!r}",
            f"one of the tag sets {available}",
            f"tags={available[0] if available else ['serve']}; `anabranch saved-model show` lists them",
        )
    )


def asset_path(export_dir: Any, filename: str) -> str:
    """The path of an asset; whether there is such a file is seen by the operation that reads it.

    Raises:
        PermissionDeniedError: the name leads out of the model's folder.
    """
    folder = os.path.realpath(os.path.join(file_errors.local(export_dir), constants.ASSETS_DIRECTORY))
    parts = filename.replace("\\", "/").split("/")
    plain = not os.path.isabs(filename) and ":" not in parts[0] and ".." not in parts and "\0" not in filename
    path = os.path.realpath(os.path.join(folder, *parts)) if filename and plain else ""
    if not path or os.path.commonpath([folder, path]) != folder:
        raise errors.PermissionDeniedError(
            None,
            None,
            errors.message(
                f"an asset called {filename!r}, which leads out of the model's folder {folder!r}",
                "a file below the folder 'assets' of the SavedModel",
                "copy the file into that folder, if you trust the model",
            ),
        )
    return path


def asset_files(meta: Any) -> list[Any]:
    """The ``AssetFileDef`` messages of a MetaGraph, from its own field or, in old files, from a collection."""
    if meta.asset_file_def:
        return list(meta.asset_file_def)
    assets = []
    if constants.ASSETS_KEY in meta.collection_def:
        for item in meta.collection_def[constants.ASSETS_KEY].any_list.value:
            if item.type_url.rpartition(".")[2] == "AssetFileDef":
                try:
                    assets.append(saved_model_pb2.AssetFileDef.FromString(item.value))
                except DecodeError as problem:
                    raise ValueError(
                        errors.message(
                            f"collection {constants.ASSETS_KEY!r} with bytes that are no AssetFileDef ({problem})",
                            "serialised messages AssetFileDef",
                            "save the model again: its description is not whole",
                        )
                    ) from None
    return assets


def assets(export_dir: Any, meta: Any, import_scope: str | None = None) -> dict[str, str]:
    """Names of the tensors that hold assets' paths, and the paths."""
    prefix = f"{import_scope}/" if import_scope else ""
    return {f"{prefix}{asset.tensor_info.name}": asset_path(export_dir, asset.filename) for asset in asset_files(meta)}


def variables_prefix(export_dir: Any) -> str:
    """Prefix of the checkpoint with the variables."""
    return os.path.join(file_errors.local(export_dir), constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)


def has_variables(export_dir: Any) -> bool:
    """Whether the model holds a checkpoint, of the current format or the old one."""
    prefix = variables_prefix(export_dir)
    if os.path.isfile(prefix + ".index") or os.path.isfile(prefix):
        return True
    folder, name = os.path.split(prefix)
    if not os.path.isdir(folder):
        return False
    with file_errors.translated(folder):
        return any(item.startswith(f"{name}-") for item in os.listdir(folder))


__all__ = [
    "asset_files",
    "asset_path",
    "assets",
    "choose_meta_graph",
    "has_variables",
    "maybe_saved_model_directory",
    "read_saved_model",
    "variables_prefix",
]
