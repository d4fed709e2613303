"""``tf.summary.scalar`` and its kin: ops that make summaries, collected for ``tf.summary.merge_all``.

Policy. The tag of a summary is the name scope that its op gets, so that two summaries of one name have two tags; with
``family`` the tag begins with the family twice, as TensorBoard groups by the first part. All is TensorFlow's.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import json_format

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import require_graph
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.protos import event_pb2, summary_pb2
from anabranch.core.values import dtypes

for _message in (
    summary_pb2.Summary,
    summary_pb2.SummaryDescription,
    event_pb2.Event,
    event_pb2.SessionLog,
    event_pb2.TaggedRunMetadata,
):
    publish_as(f"summary.{_message.DESCRIPTOR.name}", _message)
publish_as("SummaryDescription", summary_pb2.SummaryDescription)

_NOT_IN_TAGS = re.compile(r"[^-/\w\.]")


def clean_tag(name: str | None) -> str | None:
    """``name`` with what a scope's name may not have replaced by ``_``, and without slashes at its start."""
    if name is None:
        return None
    tag = _NOT_IN_TAGS.sub("_", name).lstrip("/")
    if tag != name:
        logging.getLogger("anabranch").info("Summary name %s is illegal; using %s instead.", name, tag)
    return tag


@contextlib.contextmanager
def summary_scope(
    name: str | None, family: str | None = None, default_name: str | None = None, values: Any = None
) -> Iterator[tuple[str, str]]:
    """The scope of a summary's op; gives its tag and the scope's name."""
    name, family = clean_tag(name), clean_tag(family)
    base = name if family is None else f"{family}/{name}"
    with name_scope(base, default_name, values) as scope:
        tag = scope.rstrip("/")
        yield (tag if family is None else f"{family}/{tag}"), scope


def collect(value: Tensor, collections: Iterable[Any] | None, default: Iterable[Any]) -> Tensor:
    """Add a summary to collections, ``default`` if None; return it."""
    for key in default if collections is None else collections:
        get_default_graph().add_to_collection(key, value)
    return value


_USUAL = (GraphKeys.SUMMARIES,)


@public("summary.scalar")
def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary with one number.

    Args:
        name: name of the node and, with its scopes, the tag in TensorBoard.
        tensor: a real number, a tensor of one element.
        collections: keys of the collections that it joins; ``[GraphKeys.SUMMARIES]`` if None.
        family: prefix of the tag, which TensorBoard makes a group.

    Returns:
        A string scalar, the serialised ``tf.Summary``.

    Example:
        >>> import anabranch as tf
        >>> loss = tf.summary.scalar("loss", tf.constant(0.5))
        >>> with tf.Session() as session:
        ...     tf.Summary.FromString(session.run(loss)).value[0].simple_value
        0.5
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        return collect(build("ScalarSummary", tag, tensor, name=scope), collections, _USUAL)


@public("summary.histogram")
def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary with a histogram of finite numbers, which TensorBoard also shows as a distribution.

    Args:
        name, collections, family: as for :func:`scalar`.
        values: real numbers in any shape.
    """
    with summary_scope(name, family, "HistogramSummary", [values]) as (tag, scope):
        return collect(build("HistogramSummary", tag, values, name=scope), collections, _USUAL)


@public("summary.image")
def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary with images, as PNG.

    Args:
        name, collections, family: as for :func:`scalar`.
        tensor: ``[batch, height, width, channels]``, 1, 3 or 4 channels; bytes are taken as they are, floats are
            scaled, each image by itself: to 0 to 255, or around 128 if it has negative ones.
        max_outputs: how many images of the batch to take.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        return collect(build("ImageSummary", tag, tensor, max_images=max_outputs, name=scope), collections, _USUAL)


@public("summary.audio")
def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None
) -> Tensor:
    """A summary with clips of sound, as WAV of 16 bits.

    Args:
        name, collections, family: as for :func:`scalar`.
        tensor: float32 in [-1, 1], ``[batch, frames]`` or ``[batch, frames, channels]``.
        sample_rate: frames a second, a float scalar.
        max_outputs: how many clips of the batch to take.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        rate = convert.convert_to_tensor(sample_rate, dtypes.float32, "sample_rate")
        summary = build("AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=scope)
        return collect(summary, collections, _USUAL)


@public("summary.tensor_summary")
def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Any = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """A summary with all of a tensor.

    Args:
        name, collections, family: as for :func:`scalar`.
        tensor: any tensor.
        summary_description: text that TensorBoard shows, in Markdown.
        summary_metadata: a ``tf.SummaryMetadata``, which says which plugin shows it.
        display_name: name that TensorBoard shows.
    """
    metadata = summary_pb2.SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        summary = build("TensorSummaryV2", tag, tensor, metadata.SerializeToString(), name=scope)
        return collect(summary, collections, _USUAL)


@public("summary.text")
def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """A summary with text, Markdown; matrices of strings become tables.

    Args:
        name, collections: as for :func:`scalar`.
        tensor: a string tensor.

    Raises:
        ValueError: it is none.
    """
    tensor = convert.convert_to_tensor(tensor)
    if tensor.dtype.base is not dtypes.string:
        raise ValueError(
            f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}\n"
            + errors.message(f"a text summary of {tensor.dtype.name}", "a tensor of strings", "tf.as_string(x)")
        )
    metadata = summary_pb2.SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    return tensor_summary(name, tensor, collections=collections, summary_metadata=metadata)


@public("summary.merge")
def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """One summary with the values of several; running it fails if a tag occurs twice.

    Args:
        inputs: list of string tensors, each a serialised summary.
        collections: keys of the collections that it joins; none if None.
        name: name of the op.
    """
    _require_graph()
    name = clean_tag(name)
    with name_scope(name, "Merge", inputs):
        return collect(build("MergeSummary", list(inputs), name=name), collections, ())


@public("summary.merge_all")
def merge_all(key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """One summary with all that the default graph collected; None if there are none.

    Args:
        key: key of the collection.
        scope: take only those whose names match this from their start.
        name: name of the op.
    """
    _require_graph()
    summaries = get_default_graph().get_collection(key, scope)
    return merge(summaries, name=name) if summaries else None


def _require_graph() -> None:
    require_graph(
        "Merging tf.summary.* ops is not compatible with eager execution. Use tf.contrib.summary instead.",
        "merging summaries",
        "tf.contrib.summary.scalar(name, x), which writes",
    )


@public("summary.get_summary_description")
def get_summary_description(node_def: Any) -> Any:
    """The ``SummaryDescription`` that a node of type ``TensorSummary`` holds, in JSON, in its attribute.

    Raises:
        ValueError: it is another node.
    """
    if node_def.op != "TensorSummary":
        raise ValueError(
            f"Can't get_summary_description on {node_def.op}\n"
            + errors.message(
                f"a node of type {node_def.op}", "a node of type TensorSummary", "ask only nodes of that type"
            )
        )
    return json_format.Parse(node_def.attr["description"].s, summary_pb2.SummaryDescription())
