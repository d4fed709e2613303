"""``tf.saved_model.save``: an object with its variables and traced functions, as a SavedModel of TensorFlow 2.

What is written is a MetaGraph with the object graph (:mod:`anabranch.saved_model.object_writer`), from which TensorFlow
2 and :func:`tf.saved_model.load` make objects again, and with signatures, which TensorFlow 1 and servers read:
variables that a checkpoint restores, values from outside as constants, tables that the model's init op fills.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from anabranch.core import errors, file_errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import Graph
from anabranch.eager.concrete_function import ConcreteFunction
from anabranch.eager.function import Function
from anabranch.ops.lookup.public_tables import tables_initializer
from anabranch.saved_model import tag_constants
from anabranch.saved_model.builder import SavedModelBuilder
from anabranch.saved_model.object_writer import ObjectWriter, functions_of
from anabranch.saved_model.signature_constants import PREDICT_METHOD_NAME
from anabranch.saved_model.signature_def_utils import build_signature_def
from anabranch.saved_model.tensor_info import build_tensor_info
from anabranch.session import Session
from anabranch.train.saving.saver import Saver

SERVING = "serving_default"


@public("saved_model.SaveOptions")
class SaveOptions:
    """Options of :func:`save`; all of TensorFlow's are taken at their defaults only.

    Args:
        options: options by name.

    Raises:
        UnimplementedError: an option is not at its default.
    """

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            if value:
                raise errors.UnimplementedError(
                    None, None, errors.message(f"SaveOptions({name}={value!r})", "the default", "SaveOptions()")
                )


@public("saved_model.save")
def save(obj: Any, export_dir: Any, signatures: Any = None, options: SaveOptions | None = None) -> None:
    """Write an object, the variables that its attributes lead to, and their traced functions as a SavedModel.

    Args:
        obj: an object whose attributes a checkpoint follows, such as a ``tf.Module``; traced functions
            (``tf.function``) among the attributes are saved with all their traces.
        export_dir: the folder; a model in it is replaced.
        signatures: a function, or functions by name; of one that was not traced, the signature is asked for. If None,
            the only function of ``obj`` that has an ``input_signature`` is ``serving_default``, and so is what a model
            of ``tf.keras`` computes.
        options: see :class:`SaveOptions`.

    Raises:
        RuntimeError: a graph is being built. ValueError: a signature is not a function traced for one kind of
        arguments.

    Example::

        class Model(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
            def __call__(self, x):
                return x @ self.w

        tf.saved_model.save(model, "model/1")
    """
    del options
    if current_builder().defers:
        raise RuntimeError(
            errors.message(
                "tf.saved_model.save() while a graph is built",
                "a program whose ops run at once",
                "tf.saved_model.simple_save(session, folder, inputs, outputs)",
            )
        )
    chosen = {name: _signature(name, item) for name, item in _named(signatures, obj).items()}
    folder = file_errors.local(export_dir)
    with tempfile.TemporaryDirectory() as apart:
        written = os.path.join(apart, "model")
        _write(written, chosen, obj)
        for old in ("variables", "assets"):
            shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
        shutil.copytree(written, folder, dirs_exist_ok=True)


# ----------------------------------------------------------------------------------------------------------- functions
def _only_trace(function: Function) -> ConcreteFunction | None:
    """What a function was traced for, if that is one kind of arguments or is known; else None."""
    if function.input_signature is not None:
        return function.get_concrete_function()
    traces = function._list_all_concrete_functions()
    return traces[0] if len(traces) == 1 else None


def _named(signatures: Any, obj: Any) -> Mapping[str, Any]:
    serving = getattr(obj, "_serving_function", None)
    if signatures is None and serving is not None:
        return {SERVING: serving()}
    if signatures is None:
        own = [f for f in functions_of(obj).values() if isinstance(f, Function) and f.input_signature is not None]
        return {SERVING: own[0]} if len(own) == 1 else {}
    return signatures if isinstance(signatures, Mapping) else {SERVING: signatures}


def _signature(name: str, item: Any) -> ConcreteFunction:
    traced = item if isinstance(item, ConcreteFunction) else _only_trace(item) if isinstance(item, Function) else None
    if traced is None:
        raise ValueError(
            errors.message(
                f"{item!r} as signature {name!r}",
                "a function traced for one kind of arguments",
                "f.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))",
            )
        )
    return traced


# ------------------------------------------------------------------------------------------------------------- writing
def _write(folder: str, signatures: dict[str, ConcreteFunction], obj: Any) -> None:
    graph = Graph()
    with graph.as_default(), Session(graph=graph) as session:
        writer = ObjectWriter(session, obj, signatures)
        # A function of TensorFlow 2 may have no arguments, which a signature for predictions may not.
        signature_defs = {
            name: build_signature_def(_infos(inputs), _infos(outputs), PREDICT_METHOD_NAME)
            for name, (inputs, outputs) in writer.signature_tensors.items()
        }
        builder = SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session,
            [tag_constants.SERVING],
            signature_defs,
            assets_collection=writer.assets,
            main_op=tables_initializer(),
            saver=Saver(writer.saved_values(), sharded=True),
        )
        builder.add_objects(writer.proto)
        builder.save()


def _infos(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: build_tensor_info(tensor) for name, tensor in tensors.items()}
