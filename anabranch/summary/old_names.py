"""Summaries as programs from before version 1.0 write them: the tag is an argument of its own, free of scopes."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.summary.collected import collect

_USUAL = (GraphKeys.SUMMARIES,)


@public("scalar_summary", "contrib.deprecated.scalar_summary")
def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """A summary with one number per tag; ``tags`` has the shape of ``values``. Now ``tf.summary.scalar``."""
    with name_scope(name, "ScalarSummary", [tags, values]) as scope:
        return collect(build("ScalarSummary", tags, values, name=scope), collections, _USUAL)


@public("histogram_summary", "contrib.deprecated.histogram_summary")
def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """A summary with a histogram. Now ``tf.summary.histogram``."""
    with name_scope(name, "HistogramSummary", [tag, values]) as scope:
        return collect(build("HistogramSummary", tag, values, name=scope), collections, _USUAL)


@public("image_summary", "contrib.deprecated.image_summary")
def image_summary(
    tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """A summary with images. Now ``tf.summary.image``."""
    with name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        return collect(build("ImageSummary", tag, tensor, max_images=max_images, name=scope), collections, _USUAL)


@public("audio_summary", "contrib.deprecated.audio_summary")
def audio_summary(
    tag: Any, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """A summary with clips of sound. Now ``tf.summary.audio``."""
    with name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        rate = convert.convert_to_tensor(sample_rate, dtypes.float32, "sample_rate")
        summary = build("AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=scope)
        return collect(summary, collections, _USUAL)


@public("merge_summary", "contrib.deprecated.merge_summary")
def merge_summary(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """One summary with the values of several. Now ``tf.summary.merge``."""
    with name_scope(name, "MergeSummary", inputs):
        return collect(build("MergeSummary", list(inputs), name=name), collections, ())


@public("merge_all_summaries", "contrib.deprecated.merge_all_summaries")
def merge_all_summaries(key: Any = GraphKeys.SUMMARIES) -> Tensor | None:
    """One summary with all that the default graph collected, None if there are none. Now ``tf.summary.merge_all``."""
    summaries = get_default_graph().get_collection(key)
    return merge_summary(summaries) if summaries else None
