"""Patterns in strings: `tf.strings.regex_replace`, `tf.strings.regex_full_match`.

Patterns are RE2's, as TensorFlow has them. They are run by Python's `re` on characters: what RE2 writes
otherwise (``\\z``, ``[[:alpha:]]``, ``\\Q...\\E``) is translated, and ``\\w``, ``\\d``, ``\\s`` mean ASCII.
What `re` cannot say (``\\pL``) is refused. RE2 takes time in proportion to the text; `re` may take longer for patterns
with nested repetitions.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

import numpy as np

from anabranch.core import errors, inference
from anabranch.core.api import public
from anabranch.core.build import build
from anabranch.core.opdef import PURE, Bool, NotDifferentiable, Op, String
from anabranch.core.operation import Tensor
from anabranch.ops.strings import mapped

_NO_GRADIENT = NotDifferentiable("a string has no gradient")
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NEGATED_IN_SET = "a negated class like [[:^alpha:]] inside a set"


class _Unsupported(Exception):
    """A pattern that `re` cannot say."""


def _translated(pattern: str) -> str:
    """RE2's pattern as `re` writes it."""
    found: list[str] = []
    i, in_set = 0, False
    while i < len(pattern):
        rest = pattern[i:]
        if rest.startswith("\\Q"):
            end = rest.find("\\E")
            text = rest[2:] if end < 0 else rest[2:end]
            found.append(re.escape(text))
            i += len(rest) if end < 0 else end + 2
            continue
        if rest[0] == "\\":
            letter = rest[1:2]
            if letter in ("p", "P", "C", "X"):
                raise _Unsupported(f"\\{letter}")
            braces = re.match(r"\\x\{([0-9A-Fa-f]+)\}", rest)
            if braces is not None:
                found.append(re.escape(chr(int(braces[1], 16))))
                i += len(braces[0])
                continue
            found.append("\\Z" if letter == "z" else "\\" + letter)
            i += 2
            continue
        named = re.match(r"\[:(\^?)(\w+):\]", rest)
        if in_set and named is not None and named[2] in _CLASSES:
            if named[1]:
                raise _Unsupported(_NEGATED_IN_SET)
            found.append(_CLASSES[named[2]])
            i += len(named[0])
            continue
        if not in_set and rest[0] == "[":
            in_set = True
            start = re.match(r"\[\^?\]?", rest)
            assert start is not None
            found.append(start[0].replace("]", "\\]"))
            i += len(start[0])
            continue
        if in_set and rest[0] == "]":
            in_set = False
        found.append("\\[" if in_set and rest[0] == "[" else rest[0])
        i += 1
    return "".join(found)


@functools.lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[str] | str:
    """The compiled pattern, or what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(_translated(pattern.decode("utf-8", "surrogateescape")), re.ASCII)
    except _Unsupported as problem:
        return f"{problem} is not supported here"
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, ValueError) as problem:
        return str(problem)


def _pattern(ctx: Any, pattern: bytes) -> re.Pattern[str]:
    found = _compiled(pattern)
    if isinstance(found, str):
        told = f"Invalid pattern: {pattern.decode(errors='replace')}, error: {found}"
        ctx.check(False, errors.InvalidArgumentError, told.replace("{", "{{").replace("}", "}}"))
    assert isinstance(found, re.Pattern)
    return found


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
        return compiled.sub(replacement, text, 0 if everywhere else 1).encode("utf-8", "surrogateescape")

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
