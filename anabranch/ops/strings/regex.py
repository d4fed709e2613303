"""Patterns in strings: `tf.strings.regex_replace`, `tf.strings.regex_full_match`.

Patterns are RE2's, as TensorFlow has them; :mod:`anabranch.ops.strings.re2` writes them for Python's `re`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, String
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.ops.strings import re2
from anabranch.ops.strings.text import mapped

_NO_GRADIENT = NotDifferentiable("a string has no gradient")


def _pattern(ctx: Any, pattern: bytes) -> re.Pattern[str]:
    try:
        return re2.compiled(pattern.decode("utf-8", "surrogateescape"))
    except re2.InvalidPattern as problem:
        told = f"Invalid pattern: {pattern.decode(errors='replace')}, error: {problem}"
        ctx.check(False, errors.InvalidArgumentError, told.replace("{", "{{").replace("}", "}}"))
        raise


def _replacement(rewrite: bytes, groups: int) -> Any:
    """The function from a match to its replacement: ``\\0`` is the match, ``\\1`` the first group.

    None if the text says something else, or names a group that is not there: such a rewrite changes nothing, in
    RE2 as here.
    """
    text = rewrite.decode("utf-8", "surrogateescape")
    parts: list[Any] = []
    i = 0
    while i < len(text):
        if text[i] != "\\":
            parts.append(text[i])
            i += 1
            continue
        follower = text[i + 1 : i + 2]
        is_group = follower.isdigit() and follower.isascii() and int(follower) <= groups
        if follower != "\\" and not is_group:
            return None
        parts.append(int(follower) if is_group else "\\")
        i += 2
    return lambda match: "".join((match[part] or "") if isinstance(part, int) else part for part in parts)


def _replaced(ctx: Any, values: Any, pattern: bytes, rewrite: bytes, everywhere: bool) -> np.ndarray:
    compiled = _pattern(ctx, pattern)
    replacement = _replacement(rewrite, compiled.groups)

    def changed(value: bytes) -> bytes:
        text = value.decode("utf-8", "surrogateescape")
        parts: list[str] = []
        at, end = 0, -1
        while at <= len(text) and (match := compiled.search(text, at)) is not None:
            parts.append(text[at : match.start()])
            if match.start() == match.end() == end:  # nothing, right behind a match
                parts.append(text[end : end + 1])
                at = end + 1
                continue
            parts.append(replacement(match))
            at = end = match.end()
            if not everywhere:
                break
        return "".join([*parts, text[at:]]).encode("utf-8", "surrogateescape")

    return values if replacement is None else mapped(changed, values)


def _matched(ctx: Any, values: Any, pattern: bytes) -> np.ndarray:
    compiled = _pattern(ctx, pattern)
    return mapped(
        lambda value: compiled.fullmatch(value.decode("utf-8", "surrogateescape")) is not None, values, np.bool_
    )


class RegexReplace(Op):
    """Each string with matches of ``pattern`` replaced by ``rewrite``, all of them or the first."""

    signature = "input: string, pattern: string, rewrite: string -> output: string"
    attrs = {"replace_global": Bool(True)}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("pattern", 0)
        c.with_rank("rewrite", 0)
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        return _replaced(ctx, inputs[0], inputs[1].item(), inputs[2].item(), attrs["replace_global"])


class StaticRegexReplace(Op):
    """Each string with matches of the constant ``pattern`` replaced by ``rewrite``, all of them or the first."""

    signature = "input: string -> output: string"
    attrs = {"pattern": String(), "rewrite": String(), "replace_global": Bool(True)}
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _replaced(ctx, inputs[0], _text(attrs["pattern"]), _text(attrs["rewrite"]), attrs["replace_global"])


class RegexFullMatch(Op):
    """Whether the whole of each string matches ``pattern``."""

    signature = "input: string, pattern: string -> output: bool"
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("pattern", 0)
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        return _matched(ctx, inputs[0], inputs[1].item())


class StaticRegexFullMatch(Op):
    """Whether the whole of each string matches the constant ``pattern``."""

    signature = "input: string -> output: bool"
    attrs = {"pattern": String()}
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _matched(ctx, inputs[0], _text(attrs["pattern"]))


def _text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


@public("strings.regex_replace", "regex_replace")
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    """Each string of ``input`` with matches of ``pattern`` (RE2) replaced by ``rewrite``.

    Args:
        input: strings.
        pattern: pattern, a Python string or a scalar tensor.
        rewrite: text, in which ``\\1`` to ``\\9`` are groups and ``\\0`` is the match.
        replace_global: replace all matches, else only the first.
        name: name of the op.
    """
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return build(
            "StaticRegexReplace", input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name
        )
    return build("RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name)


@public("strings.regex_full_match")
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether the whole of each string of ``input`` matches ``pattern`` (RE2); bools."""
    if isinstance(pattern, (str, bytes)):
        return build("StaticRegexFullMatch", input, pattern=pattern, name=name)
    return build("RegexFullMatch", input, pattern, name=name)


__all__ = ["regex_full_match", "regex_replace"]
