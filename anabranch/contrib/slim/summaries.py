"""``slim.summaries``: summaries named after their tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anabranch as tf


def _named(tensor: Any, name: str | None, prefix: str | None, suffix: str | None = None) -> str:
    return "/".join(part for part in (prefix, name or tensor.op.name, suffix) if part)


def add_histogram_summary(tensor: Any, name: str | None = None, prefix: str | None = None) -> Any:
    """A histogram of a tensor."""
    return tf.summary.histogram(_named(tensor, name, prefix), tensor)


def add_image_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """Images of a tensor ``[batch, height, width, channels]``; its values are printed if asked to."""
    name = _named(tensor, name, prefix)
    return _printed(tf.summary.image(name, tensor, collections=[]), tensor, name, print_summary)


def add_scalar_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """The value of a scalar; it is printed, too, if asked to."""
    name = _named(tensor, name, prefix)
    return _printed(tf.summary.scalar(name, tensor, collections=[]), tensor, name, print_summary)


def add_zero_fraction_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """The share of zeros in a tensor."""
    name = _named(tensor, name, prefix, "Fraction_of_Zero_Values")
    share = tf.nn.zero_fraction(tensor)
    return _printed(tf.summary.scalar(name, share, collections=[]), share, name, print_summary)


def _printed(summary: Any, value: Any, name: str, wanted: bool) -> Any:
    shown = tf.Print(summary, [value], name) if wanted else summary
    tf.add_to_collection(tf.GraphKeys.SUMMARIES, shown)  # one of the two: a tag stands once in what is merged
    return shown


def _each(make: Callable[..., Any], tensors: Iterable[Any], *options: Any) -> list[Any]:
    return [make(tensor, None, *options) for tensor in tensors]


def add_histogram_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """A histogram of each tensor."""
    return _each(add_histogram_summary, tensors, prefix)


def add_image_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """Images of each tensor."""
    return _each(add_image_summary, tensors, prefix)


def add_scalar_summaries(tensors: Iterable[Any], prefix: str | None = None, print_summary: bool = False) -> list[Any]:
    """The value of each scalar."""
    return _each(add_scalar_summary, tensors, prefix, print_summary)


def add_zero_fraction_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """The share of zeros in each tensor."""
    return _each(add_zero_fraction_summary, tensors, prefix)
