"""``tf.contrib.predictor``: a SavedModel as a function of a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph
from anabranch.saved_model.loaded import LoadedModel, load

_SERVING = "serving_default"


@public("contrib.predictor.Predictor")
class Predictor:
    """Call one signature of a loaded model: ``predictor({"x": array})`` gives ``{"y": array}``.

    Args:
        model: the model.
        key: name of the signature.
    """

    def __init__(self, model: LoadedModel, key: str) -> None:
        if key not in model.signatures:
            raise ValueError(
                f"Got signature_def_key {key!r}. Available signatures are {sorted(model.signatures)}.\n"
                + errors.message(
                    f"signature {key!r}",
                    f"one of {sorted(model.signatures)}",
                    "signature_def_key= with one of these names",
                )
            )
        self._model = model
        self._signature = model.signatures[key]

    @property
    def session(self) -> Any:
        """Session with the model's variables."""
        return self._model.session

    @property
    def graph(self) -> Graph:
        """Graph of the model."""
        return self._model.graph

    @property
    def feed_tensors(self) -> dict[str, Any]:
        """Tensors that are fed, by name."""
        return dict(self._signature.inputs)

    @property
    def fetch_tensors(self) -> dict[str, Any]:
        """Tensors that are fetched, by name."""
        return dict(self._signature.outputs)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name for arrays by name."""
        unknown = sorted(set(input_dict) - set(self._signature.inputs))
        if unknown:
            raise ValueError(
                f"Got unexpected keys in input_dict: {unknown}\n"
                + errors.message(f"inputs {sorted(input_dict)}", f"({self._signature.shown_inputs()})", "rename them")
            )
        outputs: dict[str, Any] = self._signature(**input_dict)
        return outputs


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

    Args:
        export_dir: the model's folder.
        signature_def_key: name of the signature; ``serving_default`` if None.
        signature_def, input_names, output_names, graph: must be None; a signature names inputs and outputs.
        tags: tags of the MetaGraph, a list or separated by commas; ``serve`` if None.
        config: options of the model's session.
    """
    for name, value in (
        ("signature_def", signature_def),
        ("input_names", input_names),
        ("output_names", output_names),
        ("graph", graph),
    ):
        if value is not None:
            raise NotImplementedError(
                errors.message(
                    f"from_saved_model({name}=...)",
                    "a signature of the model by its name",
                    "signature_def_key=, or tf.saved_model.loader.load and a session for other tensors",
                )
            )
    wanted = [tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags
    return Predictor(load(export_dir, wanted or ["serve"], config=config), signature_def_key or _SERVING)


__getattr__, __dir__ = api.module_attributes("contrib.predictor")
