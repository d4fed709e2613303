"""Patterns in strings: `tf.strings.regex_replace`, `tf.strings.regex_full_match`.

Patterns are RE2's, and RE2 is what matches them (the package google-re2), as in TensorFlow: in time linear in the text,
whatever the pattern. Strings are bytes that hold UTF-8; a byte that does not is a character that no class has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import re2

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, String
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.ops.shared import row_rules
from anabranch.ops.strings.text import mapped

_NO_GRADIENT = NotDifferentiable("a string has no gradient")


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def _pattern(ctx: Any, pattern: bytes) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as problem:
        reason = problem.args[0].decode(errors="replace") if isinstance(problem.args[0], bytes) else str(problem)
        text = f"Invalid pattern: {pattern.decode(errors='replace')}, error: {reason}"
        ctx.check(False, errors.InvalidArgumentError, text.replace("{", "{{").replace("}", "}}"))
        raise


def _replacement(rewrite: bytes, groups: int) -> list[bytes | int] | None:
    """What a match is replaced by: texts, and numbers of groups; group 0 is the match itself.

    None if the text says something else, or names a group that is not there: such a rewrite changes nothing, in
    RE2 as here.
    """
    parts: list[bytes | int] = [b""]
    i = 0
    while i < len(rewrite):
        byte, follower = rewrite[i : i + 1], rewrite[i + 1 : i + 2]
        part: bytes | int = byte
        if byte == b"\\":
            is_group = follower.isdigit() and int(follower) <= groups
            if follower != b"\\" and not is_group:
                return None
            part = int(follower) if is_group else follower
            i += 1
        last = parts[-1]
        if isinstance(part, bytes) and isinstance(last, bytes):
            parts[-1] = last + part
        else:
            parts.append(part)
        i += 1
    return parts


def _character_length(text: bytes, at: int) -> int:
    """How many bytes the character at a place has; 1 if the bytes there are not UTF-8."""
    lead = text[at]
    size = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    try:
        text[at : at + size].decode()
    except UnicodeDecodeError:
        return 1
    return size


def _replaced(ctx: Any, values: Any, pattern: bytes, rewrite: bytes, everywhere: bool) -> np.ndarray:
    compiled = _pattern(ctx, pattern)
    replacement = _replacement(rewrite, compiled.groups)
    if replacement is None:
        return values
    fixed = replacement[0] if len(replacement) == 1 else None

    def changed(text: bytes) -> bytes:
        parts: list[Any] = []
        end, last = 0, -1  # where the rest of the text begins, and where the last match ended
        behind = 0  # a match of nothing before this place is within a character
        for match in compiled.finditer(text):
            start, stop = match.span()
            if start == stop and (start == last or start < behind):  # nothing, right behind a match or in a character
                if start == last and start < len(text):
                    behind = start + _character_length(text, start)
                continue
            parts.append(text[end:start])
            if fixed is not None:
                parts.append(fixed)
            else:
                parts += [(match[part] or b"") if isinstance(part, int) else part for part in replacement]
            end = last = stop
            if not everywhere:
                break
            if start == stop < len(text):
                behind = start + _character_length(text, start)
        return b"".join([*parts, text[end:]]) if parts else text

    return mapped(changed, values)


def _matched(ctx: Any, values: Any, pattern: bytes) -> np.ndarray:
    compiled = _pattern(ctx, pattern)
    return mapped(lambda text: compiled.fullmatch(text) is not None, values, np.bool_)


class RegexReplace(Op):
    """Each string with matches of ``pattern`` replaced by ``rewrite``, all of them or the first."""

    signature = "input: string, pattern: string, rewrite: string -> output: string"
    attrs = {"replace_global": Bool(True)}
    effect = PURE
    by_rows = row_rules.as_it_is
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
    by_rows = row_rules.as_it_is
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
