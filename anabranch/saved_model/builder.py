"""Writing SavedModels: `tf.saved_model.builder.SavedModelBuilder` and `tf.saved_model.simple_save`.

Policy. A builder has one folder, which must not hold anything yet. The first MetaGraph brings the values of all
variables, further ones (other tags, the same variables) only their graphs. Assets are copied; two files of one name
get two names. The description is written last and in one piece, so that a folder either holds a whole model or none.
Graphs with op types that only this package knows are refused, since the format is there for others.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import any_pb2

from anabranch.core import errors, file_errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import graph_def
from anabranch.core.protos import saved_model_pb2
from anabranch.saved_model import constants, files, signature_constants, signature_def_utils, tag_constants
from anabranch.train import meta_graph
from anabranch.train.graph_files import write_message
from anabranch.train.saving.saver import Saver, settle

_ASSET_TYPE = "type.googleapis.com/tensorflow.AssetFileDef"


@public("saved_model.builder.SavedModelBuilder", "saved_model.Builder")
class SavedModelBuilder:
    """Write a SavedModel.

    Args:
        export_dir: folder, which must be empty or not exist.

    Raises:
        AssertionError: the folder holds something.

    Example::

        builder = tf.saved_model.builder.SavedModelBuilder("model/1")
        signature = tf.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    """

    def __init__(self, export_dir: Any) -> None:
        self._export_dir = file_errors.local(export_dir)
        self._saved_model = saved_model_pb2.SavedModel(saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
        if os.path.exists(self._export_dir):
            with file_errors.translated(self._export_dir):
                names = sorted(os.listdir(self._export_dir))
            if names:
                raise AssertionError(
                    "Export directory already exists, and isn't empty. Please choose a different export directory, or "
                    f"delete all the contents of the specified directory: {self._export_dir}\n"
                    + errors.message(
                        f"export_dir={self._export_dir!r}, which holds {names[:3]}",
                        "a folder that is empty or does not exist",
                        "a new folder for each version of the model",
                    )
                )
        else:
            os.makedirs(self._export_dir)
        self._has_saved_variables = False
        self._assets: dict[str, str] = {}
        """Path of each asset's source, by its name in the model."""

    # ------------------------------------------------------------------------------------------------------ MetaGraphs
    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Sequence[Any] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Add the default graph, and the values that its variables have in ``sess``.

        Args:
            sess: session with the values.
            tags: what the MetaGraph is found by, such as ``["serve"]``.
            signature_def_map: signatures by name.
            assets_collection: string tensors with the paths of the files that the graph reads.
            legacy_init_op: old name of ``main_op``.
            clear_devices: leave out devices.
            main_op: operation that a loading program runs once the variables have their values.
            strip_default_attrs: leave out attributes at their default, for programs of older versions.
            saver: saver of the variables; one for all variables of the graph if None.

        Raises:
            AssertionError: variables have been saved already, or a signature is not complete. TypeError: ``main_op``
            is not an operation. KeyError: a signature's name is reserved.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. "
                "Please invoke `add_meta_graph()` instead."
            )
        signatures = self._signatures(signature_def_map)
        graph = getattr(sess, "graph", None) or get_default_graph()
        with graph.as_default():
            saver = self._saver(saver)
            meta = self._meta_graph(
                graph,
                saver,
                tags,
                signatures,
                assets_collection,
                legacy_init_op,
                main_op,
                clear_devices,
                strip_default_attrs,
            )
            prefix = files.variables_prefix(self._export_dir)
            os.makedirs(os.path.dirname(prefix), exist_ok=True)
            saver.save(sess, prefix, write_meta_graph=False, write_state=False)
            settle(saver)
        self._saved_model.meta_graphs.append(meta)
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Sequence[Any] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Add the default graph under other tags; it uses the variables that were saved with the first.

        Arguments are those of :meth:`add_meta_graph_and_variables`.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. "
                "Please invoke `add_meta_graph_and_variables()` first."
            )
        graph = get_default_graph()
        meta = self._meta_graph(
            graph,
            self._saver(saver),
            tags,
            self._signatures(signature_def_map),
            assets_collection,
            legacy_init_op,
            main_op,
            clear_devices,
            strip_default_attrs,
        )
        self._saved_model.meta_graphs.append(meta)

    def add_meta_graph_of_saved_variables(
        self, tags: Iterable[str], signature_def_map: Mapping[str, Any], saver: Any
    ) -> None:
        """Add the default graph, whose variables the program has saved under the model's own prefix.

        Args:
            tags: what the MetaGraph is found by.
            signature_def_map: signatures by name.
            saver: the saver by which a loading program restores the variables.
        """
        self._has_saved_variables = True
        self.add_meta_graph(tags, signature_def_map, saver=saver)

    def add_objects(self, object_graph: Any) -> None:
        """Give the MetaGraph that was added last an object graph, a ``SavedObjectGraph``."""
        self._saved_model.meta_graphs[-1].object_graph_def.CopyFrom(object_graph)

    def save(self, as_text: bool = False) -> bytes:
        """Write the description, as text if asked, and return its path."""
        name = constants.SAVED_MODEL_FILENAME_PBTXT if as_text else constants.SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._export_dir, name)
        write_message(path, self._saved_model, as_text)
        return os.fsencode(path)

    # ----------------------------------------------------------------------------------------------------------- parts
    @staticmethod
    def _saver(saver: Any) -> Any:
        return Saver(sharded=True, allow_empty=True) if saver is None else saver

    def _meta_graph(
        self,
        graph: Graph,
        saver: Any,
        tags: Iterable[str],
        signatures: dict[str, Any],
        assets_collection: Sequence[Any] | None,
        legacy_init_op: Operation | None,
        main_op: Operation | None,
        clear_devices: bool,
        strip_default_attrs: bool,
    ) -> Any:
        if isinstance(tags, (str, bytes)):
            raise TypeError(errors.message(f"tags={tags!r}", "a list of tags", f"tags=[{tags!r}]"))
        for label, op in (("legacy_init_op", legacy_init_op), ("main_op", main_op)):
            if op is not None and not isinstance(op, Operation):
                raise TypeError(
                    f"{label} needs to be an Operation: {op!r}\n"
                    + errors.message(f"{label}={op!r}", "an operation", "tf.group(op)")
                )
        meta = meta_graph.scoped_meta_graph(
            graph,
            saver_def=saver.saver_def,
            clear_devices=clear_devices,
            strip_default_attrs=strip_default_attrs,
        )
        graph_def.check_exportable(meta.graph_def)
        self._check_names(graph, signatures)
        meta.meta_info_def.tags.extend(tags)
        for key, signature in signatures.items():
            meta.signature_def[key].CopyFrom(signature)
        for key, op in ((constants.LEGACY_INIT_OP_KEY, legacy_init_op), (constants.MAIN_OP_KEY, main_op)):
            if op is not None:
                if key == constants.LEGACY_INIT_OP_KEY and graph.get_collection(key):
                    raise ValueError(
                        f"Graph already contains one or more main ops under the collection {key}.\n"
                        + errors.message(
                            f"legacy_init_op, and {len(graph.get_collection(key))} more in the collection {key!r}",
                            "one operation that initialises",
                            f"an empty collection {key!r}, or main_op=op",
                        )
                    )
                meta_graph.write_collection(meta, key, graph, items=[op])
        self._add_assets(meta, assets_collection)
        return meta

    @staticmethod
    def _signatures(given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Own copies of the signatures, each complete."""
        signatures = {}
        for key, signature in (given or {}).items():
            if key in (constants.INIT_OP_SIGNATURE_KEY, constants.TRAIN_OP_SIGNATURE_KEY):
                raise KeyError(
                    f"SignatureDef map key {key!r} is reserved for initialization. Please use a different key."
                )
            if getattr(getattr(signature, "DESCRIPTOR", None), "name", "") != "SignatureDef":
                raise TypeError(
                    errors.message(
                        f"signature {key!r}: {signature!r}",
                        "a SignatureDef",
                        "tf.saved_model.signature_def_utils.predict_signature_def({'x': x}, {'y': y})",
                    )
                )
            own = saved_model_pb2.SignatureDef.FromString(signature.SerializeToString())
            for name, info in [*own.inputs.items(), *own.outputs.items()]:
                if info.WhichOneof("encoding") is None or info.name == "" == info.coo_sparse.values_tensor_name:
                    raise AssertionError(
                        "All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' fields (e.g., "
                        f"name or coo_sparse) set: {str(info).strip()}\n"
                        + errors.message(
                            f"{name!r} of signature {key!r} without a name",
                            "the name of a tensor",
                            "tf.saved_model.utils.build_tensor_info(tensor)",
                        )
                    )
                if not info.dtype:
                    raise AssertionError(
                        "All TensorInfo protos used in the SignatureDefs must have the dtype field set: "
                        f"{str(info).strip()}\n"
                        + errors.message(
                            f"{name!r} of signature {key!r} without a dtype",
                            "the dtype of a tensor",
                            "tf.saved_model.utils.build_tensor_info(tensor)",
                        )
                    )
            signatures[str(key)] = own
        return signatures

    @staticmethod
    def _check_names(graph: Graph, signatures: dict[str, Any]) -> None:
        """Refuse signatures that name what is not in the graph, before a server finds out."""
        for key, signature in signatures.items():
            for name, info in [*signature.inputs.items(), *signature.outputs.items()]:
                try:
                    graph.as_graph_element(info.name or info.coo_sparse.values_tensor_name)
                except (KeyError, ValueError) as problem:
                    raise ValueError(
                        errors.message(
                            f"signature {key!r} whose {name!r} is not in the graph: {problem}",
                            "tensors of the graph that is saved",
                            "build the signature under `with graph.as_default():`",
                        )
                    ) from None

    def _add_assets(self, meta: Any, assets_collection: Sequence[Any] | None) -> None:
        for tensor in assets_collection or ():
            path = _path_of(tensor)
            name = self._name_of(path)
            asset = meta.asset_file_def.add(filename=name)
            asset.tensor_info.name = tensor.name
            # Programs before TensorFlow 1.12 look for a collection, under TensorFlow's name of the message.
            held = any_pb2.Any(type_url=_ASSET_TYPE, value=asset.SerializeToString())
            meta.collection_def[constants.ASSETS_KEY].any_list.value.append(held)

    def _name_of(self, path: str) -> str:
        """The name of a file among the model's assets; copies it if it is new."""
        base = os.path.basename(path)
        name, count = base, 0
        while name in self._assets:
            if os.path.samefile(self._assets[name], path) or filecmp.cmp(self._assets[name], path, shallow=False):
                return name
            count += 1
            name = f"{base}_{count}"
        folder = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(path, os.path.join(folder, name))
        self._assets[name] = path
        return name


def _path_of(tensor: Any) -> str:
    """The path that a constant string tensor of the collection of assets holds."""
    if not isinstance(tensor, Tensor):
        lead = "Asset path tensor must be a Tensor."
    elif tensor.dtype.base.name != "string":
        lead = "Asset path tensor must be of dtype string."
    else:
        lead = ""
    if lead:
        raise TypeError(
            f"{lead}\n" + errors.message(f"{tensor!r} as an asset", "a string tensor", "tf.constant(path_of_the_file)")
        )
    value = partial_value(tensor)
    if value is None:
        raise TypeError(
            f"Asset tensor {tensor.name} must be a constant.\n"
            + errors.message(
                f"tensor {tensor.name!r}, whose value is not known while the graph is built",
                "a constant with the path of a file",
                "tf.constant(path), the same tensor that the graph reads",
            )
        )
    flat = getattr(value, "ravel", lambda: [value])()
    if len(flat) != 1 or not flat[0]:
        raise ValueError(f"Asset filepath of tensor {tensor.name} must be one path, but is {value!r}.")
    path = os.fsdecode(flat[0])
    if not os.path.isfile(path):
        raise errors.NotFoundError(None, None, f"The asset {path!r} of tensor {tensor.name!r} does not exist.")
    return path


@public("saved_model.simple_save")
def simple_save(
    session: Any,
    export_dir: Any,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Operation | None = None,
) -> None:
    """Save the session's graph and variables for serving, with one signature, ``serving_default``.

    Args:
        session: session with the variables' values.
        export_dir: folder that does not exist yet or is empty.
        inputs: tensors that are fed, by name.
        outputs: tensors that are fetched, by name.
        legacy_init_op: operation that a loading program runs after it has restored the variables.

    Files in the collection ``ASSET_FILEPATHS`` are saved as assets.
    """
    signature = signature_def_utils.predict_signature_def(inputs, outputs)
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        [tag_constants.SERVING],
        {signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        assets_collection=session.graph.get_collection(GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()


__all__ = ["SavedModelBuilder", "simple_save"]
