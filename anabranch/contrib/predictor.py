"""``tf.contrib.predictor``: a SavedModel as a function of a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph
from anabranch.saved_model.loaded import LoadedModel, load

_SERVING = "serving_default"


@public("contrib.predictor.Predictor")
class Predictor:
    """Call tensors of a session by names: ``predictor({"x": array})`` gives ``{"y": array}``.

    A class derived from it sets ``_graph``, ``_session``, ``_feed_tensors`` and ``_fetch_tensors``.
    """

    _graph: Graph
    _session: Any
    _feed_tensors: dict[str, Any]
    _fetch_tensors: dict[str, Any]

    @property
    def session(self) -> Any:
        """Session with the model's variables."""
        return self._session

    @property
    def graph(self) -> Graph:
        """Graph of the model."""
        return self._graph

    @property
    def feed_tensors(self) -> dict[str, Any]:
        """Tensors that are fed, by name."""
        return self._feed_tensors

    @property
    def fetch_tensors(self) -> dict[str, Any]:
        """Tensors that are fetched, by name."""
        return self._fetch_tensors

    def __repr__(self) -> str:
        return f"{type(self).__name__} with feed tensors {self._feed_tensors} and fetch_tensors {self._fetch_tensors}"

    def _check(self, input_dict: Mapping[str, Any]) -> None:
        unknown = sorted(set(input_dict) - set(self.feed_tensors))
        if unknown:
            expected = sorted(self.feed_tensors)
            raise ValueError(
                f"Got unexpected keys in input_dict: {unknown}\nexpected: {expected}\n"
                + errors.message(f"inputs {sorted(input_dict)}", f"{expected}", "rename them")
            )

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name for arrays by name.

        Raises:
            ValueError: a name is not one of an input.
        """
        self._check(input_dict)
        feeds = {
            tensor: input_dict[name] for name, tensor in self.feed_tensors.items() if input_dict.get(name) is not None
        }
        outputs: dict[str, Any] = self._session.run(self.fetch_tensors, feeds)
        return outputs


class SavedModelPredictor(Predictor):
    """A :class:`Predictor` for a SavedModel; arguments as for ``from_saved_model``."""

    def __init__(
        self,
        export_dir: Any,
        signature_def_key: str | None = None,
        signature_def: Any = None,
        input_names: Mapping[str, str] | None = None,
        output_names: Mapping[str, str] | None = None,
        tags: Any = None,
        graph: Graph | None = None,
        config: Any = None,
    ) -> None:
        _check_choice(signature_def_key, signature_def, input_names, output_names)
        wanted = [tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags
        wanted = wanted or ["serve"]
        self._signature: Any = None
        if graph is not None:
            self._graph = graph
            self._session = tf.Session(graph=graph, config=config)
            meta = tf.saved_model.loader.load(self._session, wanted, export_dir)
            if input_names is None and signature_def is None:
                _known(signature_def_key or _SERVING, meta.signature_def)
                signature_def = meta.signature_def[signature_def_key or _SERVING]
        else:
            self._model: LoadedModel = load(export_dir, wanted, config=config)
            self._graph, self._session = self._model.graph, self._model.session
            if input_names is None and signature_def is None:
                _known(signature_def_key or _SERVING, self._model.signatures)
                self._signature = self._model.signatures[signature_def_key or _SERVING]
                self._feed_tensors = dict(self._signature.inputs)
                self._fetch_tensors = dict(self._signature.outputs)
                return
        if input_names is None or output_names is None:
            input_names = {name: info.name for name, info in signature_def.inputs.items()}
            output_names = {name: info.name for name, info in signature_def.outputs.items()}
        self._feed_tensors = {name: self._graph.get_tensor_by_name(tensor) for name, tensor in input_names.items()}
        self._fetch_tensors = {name: self._graph.get_tensor_by_name(tensor) for name, tensor in output_names.items()}

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name for arrays by name."""
        if self._signature is None:
            return super().__call__(input_dict)
        self._check(input_dict)
        outputs: dict[str, Any] = self._signature(**input_dict)
        return outputs


def _known(key: str, signatures: Any) -> None:
    if key not in signatures:
        raise ValueError(
            f"Got signature_def_key {key!r}. Available signatures are {sorted(signatures)}.\n"
            + errors.message(
                f"signature {key!r}", f"one of {sorted(signatures)}", "signature_def_key= with one of these names"
            )
        )


def _check_choice(key: Any, signature: Any, inputs: Any, outputs: Any) -> None:
    """Refuse more than one way to say which tensors are fed and fetched."""
    text = None
    if key is not None and signature is not None:
        text = "Cannot specify both signature_def_key and signature_def."
    elif (inputs is None) != (outputs is None):
        text = "input_names and output_names must both be specified or both be unspecified."
    elif inputs is not None and (key is not None or signature is not None):
        text = "You must specify one of signature_def_key OR signature_def OR an input and output names dict."
    if text is not None:
        given = {
            name: value is not None
            for name, value in (
                ("signature_def_key", key),
                ("signature_def", signature),
                ("input_names", inputs),
                ("output_names", outputs),
            )
        }
        raise ValueError(
            text
            + "\n"
            + errors.message(
                f"{', '.join(name for name, there in given.items() if there)}",
                "a key, a SignatureDef, or both dictionaries of names",
                "signature_def_key='serving_default'",
            )
        )


@public("contrib.predictor.from_saved_model")
def from_saved_model(
    export_dir: Any,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: Any = None,
    output_names: Any = None,
    tags: Any = None,
    graph: Graph | None = None,
    config: Any = None,
) -> Predictor:
    """A :class:`Predictor` for a SavedModel.

    Which tensors are fed and fetched is said in one of three ways: by the name of a signature, by a SignatureDef, or
    by two dictionaries from names to names of tensors.

    Args:
        export_dir: the model's folder.
        signature_def_key: name of the signature; ``serving_default`` if None.
        signature_def: a SignatureDef of tensors of the model.
        input_names: names of tensors that are fed, such as ``{"x": "inputs/x:0"}``.
        output_names: names of tensors that are fetched.
        tags: tags of the MetaGraph, a list or separated by commas; ``serve`` if None.
        graph: graph to load the model into; a new one if None. A model of TensorFlow 2 needs a new one.
        config: options of the model's session.

    Raises:
        ValueError: the model has no such signature, or tensors are named in more than one way.
        RuntimeError: the model has no MetaGraph with these tags.
    """
    return SavedModelPredictor(
        export_dir, signature_def_key, signature_def, input_names, output_names, tags, graph, config
    )


__getattr__, __dir__ = api.module_attributes("contrib.predictor")
