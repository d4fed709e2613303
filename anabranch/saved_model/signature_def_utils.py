"""Signatures: named inputs and outputs of one way to call a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.protos import saved_model_pb2
from anabranch.core.values import dtypes
from anabranch.saved_model import signature_constants as names
from anabranch.saved_model import tensor_info


def _names(*own: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in own for prefix in ("saved_model.signature_def_utils.", "saved_model."))


@public(*_names("build_signature_def"))
def build_signature_def(
    inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None, method_name: str | None = None
) -> Any:
    """A ``SignatureDef`` from ``TensorInfo`` messages by name.

    Args:
        inputs: what is fed.
        outputs: what is fetched.
        method_name: kind of the signature, one of the ``*_METHOD_NAME`` constants.
    """
    signature = saved_model_pb2.SignatureDef()
    for given, target in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for name, info in (given or {}).items():
            own = info
            if not isinstance(info, saved_model_pb2.TensorInfo):
                if getattr(getattr(info, "DESCRIPTOR", None), "name", "") != "TensorInfo":
                    raise TypeError(
                        errors.message(
                            f"{name!r}: {info!r}", "a TensorInfo", "tf.saved_model.utils.build_tensor_info(tensor)"
                        )
                    )
                own = saved_model_pb2.TensorInfo.FromString(info.SerializeToString())
            target[name].CopyFrom(own)
    if method_name is not None:
        signature.method_name = method_name
    return signature


_KINDS = {dtypes.string: "string", dtypes.float32: "float"}


def _checked(tensor: Any, what: str, argument: str, dtype: dtypes.DType | None) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{what} `{argument}` must be a tensor.\n"
            + errors.message(f"{tensor!r} of type {type(tensor).__name__}", "a tensor", "tf.convert_to_tensor(value)")
        )
    info = tensor_info.build_tensor_info(tensor)
    if dtype is not None and info.dtype != dtype.enum:
        raise ValueError(
            f"{what} {argument} must be a {_KINDS[dtype]} Tensor.\n"
            + errors.message(f"tensor {tensor.name!r} of {tensor.dtype.name}", dtype.name, "tf.cast(x, dtype)")
        )
    return info


@public(*_names("regression_signature_def"))
def regression_signature_def(examples: Tensor, predictions: Tensor) -> Any:
    """A regression signature: strings (serialised ``tf.train.Example``) to floats."""
    for value, name in ((examples, "examples"), (predictions, "predictions")):
        if value is None:
            raise ValueError(f"Regression {name} cannot be None.")
    return build_signature_def(
        {names.REGRESS_INPUTS: _checked(examples, "Regression", "examples", dtypes.string)},
        {names.REGRESS_OUTPUTS: _checked(predictions, "Regression", "output", dtypes.float32)},
        names.REGRESS_METHOD_NAME,
    )


@public(*_names("classification_signature_def"))
def classification_signature_def(examples: Tensor, classes: Tensor | None, scores: Tensor | None) -> Any:
    """A classification signature: strings (serialised ``tf.train.Example``) to class names, scores, or both."""
    if examples is None:
        raise ValueError("Classification examples cannot be None.")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _checked(classes, "Classification", "classes", dtypes.string)
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _checked(scores, "Classification", "scores", dtypes.float32)
    return build_signature_def(
        {names.CLASSIFY_INPUTS: _checked(examples, "Classification", "examples", dtypes.string)},
        outputs,
        names.CLASSIFY_METHOD_NAME,
    )


@public(*_names("predict_signature_def"))
def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """A signature of any tensors: ``inputs`` and ``outputs`` by name."""
    for given, name in ((inputs, "inputs"), (outputs, "outputs")):
        if not given:
            raise ValueError(f"Prediction {name} cannot be None or empty.")
    return build_signature_def(
        {key: tensor_info.build_tensor_info(tensor) for key, tensor in inputs.items()},
        {key: tensor_info.build_tensor_info(tensor) for key, tensor in outputs.items()},
        names.PREDICT_METHOD_NAME,
    )


def supervised_train_signature_def(
    inputs: Mapping[str, Any], loss: Any, predictions: Any = None, metrics: Mapping[str, Any] | None = None
) -> Any:
    """A training signature: inputs and labels to loss, predictions and metrics ``{name: (value, update op)}``."""
    return _supervised(names.SUPERVISED_TRAIN_METHOD_NAME, inputs, loss, predictions, metrics)


def supervised_eval_signature_def(
    inputs: Mapping[str, Any], loss: Any, predictions: Any = None, metrics: Mapping[str, Any] | None = None
) -> Any:
    """An evaluation signature: inputs and labels to loss, predictions and metrics ``{name: (value, update op)}``."""
    return _supervised(names.SUPERVISED_EVAL_METHOD_NAME, inputs, loss, predictions, metrics)


def _supervised(method: str, inputs: Any, loss: Any, predictions: Any, metrics: Any) -> Any:
    if not inputs:
        raise ValueError(f"{method} inputs cannot be None or empty.")
    outputs: dict[str, Any] = {}
    if loss is not None:
        outputs.update(_prefixed("loss", loss))
    if predictions is not None:
        outputs.update(_prefixed("predictions", predictions))
    for name, pair in (metrics or {}).items():
        value, update = pair
        outputs[f"metrics/{name}/value"] = value
        outputs[f"metrics/{name}/update_op"] = update
    return build_signature_def(
        {key: tensor_info.build_tensor_info(tensor) for key, tensor in inputs.items()},
        {
            key: tensor_info.build_tensor_info_from_op(item)
            if isinstance(item, Operation)
            else tensor_info.build_tensor_info(item)
            for key, item in outputs.items()
        },
        method,
    )


def _prefixed(prefix: str, given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {key if key.startswith(prefix) else f"{prefix}/{key}": value for key, value in given.items()}
    return {prefix: given}


def op_signature_def(op: Operation, key: str) -> Any:
    """A signature that names an operation, its output ``key``."""
    return build_signature_def(outputs={key: tensor_info.build_tensor_info_from_op(op)})


def load_op_from_signature_def(signature_def: Any, key: str, import_scope: str | None = None) -> Any:
    """The operation or tensor that :func:`op_signature_def` put under ``key``, in the default graph."""
    try:
        return tensor_info.get_element_from_tensor_info(
            signature_def.outputs[key], graph=get_default_graph(), import_scope=import_scope
        )
    except KeyError as problem:
        raise errors.NotFoundError(
            None, None, f"The {key!r} op of the SavedModel's signature is not in the graph: {problem}"
        ) from None


@public(*_names("is_valid_signature"))
def is_valid_signature(signature_def: Any) -> bool:
    """Whether a server could use the signature for its kind: names and dtypes of inputs and outputs fit."""
    if signature_def is None:
        return False
    inputs = {key: info.dtype for key, info in signature_def.inputs.items()}
    outputs = {key: info.dtype for key, info in signature_def.outputs.items()}
    text, real = dtypes.string.enum, dtypes.float32.enum
    method = signature_def.method_name
    if method == names.CLASSIFY_METHOD_NAME:
        allowed = {names.CLASSIFY_OUTPUT_CLASSES: text, names.CLASSIFY_OUTPUT_SCORES: real}
        return (
            inputs == {names.CLASSIFY_INPUTS: text}
            and bool(outputs)
            and all(allowed.get(key) == dtype for key, dtype in outputs.items())
        )
    if method == names.REGRESS_METHOD_NAME:
        return inputs == {names.REGRESS_INPUTS: text} and outputs == {names.REGRESS_OUTPUTS: real}
    return method == names.PREDICT_METHOD_NAME and bool(inputs) and bool(outputs)


__all__ = [
    "build_signature_def",
    "classification_signature_def",
    "is_valid_signature",
    "load_op_from_signature_def",
    "op_signature_def",
    "predict_signature_def",
    "regression_signature_def",
    "supervised_eval_signature_def",
    "supervised_train_signature_def",
]
