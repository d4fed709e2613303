r"""RE2's patterns, as TensorFlow's string ops have them, written so that Python's `re` means the same.

What differs is rewritten: ``$`` and ``\z`` are the end of the text, ``\w``, ``\d``, ``\b`` are ASCII and ``\s`` has no
``\v``; classes like ``[[:alpha:]]`` and ``\p{Lu}``, ``\Q...\E``, ``\x{...}``, flags in the middle of a group,
``(?<name>...)``, a ``{`` that begins no repetition. What RE2 refuses and `re` does not is refused: references to
groups, looking ahead and behind, possessive and atomic groups, comments, conditions, ``\Z``, ``\u``, repetitions beyond
1000. What remains: ``(?U)``, ``\C`` and scripts (``\p{Greek}``) are refused here, and `re` may take longer than in
proportion to the text for patterns with nested repetitions.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings

from anabranch.core.cache import memoized

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NEGATED = {
    "alnum": r"\x00-/:-@\[-`{-\U0010ffff", "alpha": r"\x00-@\[-`{-\U0010ffff", "ascii": r"\x80-\U0010ffff",
    "blank": r"\x00-\x08\n-\x1f!-\U0010ffff", "cntrl": r" -~\x80-\U0010ffff", "digit": r"\x00-/:-\U0010ffff",
    "graph": r"\x00- \x7f-\U0010ffff", "lower": r"\x00-`{-\U0010ffff", "print": r"\x00-\x1f\x7f-\U0010ffff",
    "punct": r"\x00- 0-9A-Za-z\x7f-\U0010ffff", "space": r"\x00-\x08\x0e-\x1f!-\U0010ffff",
    "upper": r"\x00-@\[-\U0010ffff", "word": r"\x00-/:-@\[-^`{-\U0010ffff", "xdigit": r"\x00-/:-@G-`g-\U0010ffff",
}  # fmt: skip
_LETTERS = {
    "d": _CLASSES["digit"], "D": _NEGATED["digit"], "w": _CLASSES["word"], "W": _NEGATED["word"],
    "s": r"\t\n\f\r ", "S": r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff",
}  # fmt: skip
_WORD = "[0-9A-Za-z_]"
_EDGE = f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_EDGE = f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"
_SAME = frozenset("aftnrv")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_MOST_REPEATS = 1000


class InvalidPattern(ValueError):
    """A pattern that RE2 refuses, or one that cannot be said here."""


@memoized("regular expressions", 256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for Python.

    Raises:
        InvalidPattern: Python has none.
    """
    text = _Translation(pattern).translated()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as problem:
        raise InvalidPattern(str(problem)) from None


class _Translation:
    """One pattern on its way; ``at`` is where reading goes on."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.found: list[str] = []
        self.flags = ""
        """Of ``i``, ``m``, ``s``: what holds here."""
        self.base = ""
        """What held where the group around this place began."""
        self.outer: list[tuple[str, str, int]] = []
        """Per open group: flags and base around it, and how many groups of ours are open in what is around it."""
        self.added = 0

    def translated(self) -> str:
        """The whole pattern."""
        repeatable = False
        while self.at < len(self.pattern):
            letter = self.pattern[self.at]
            if letter in "*+?{" and self._repetition(repeatable):
                repeatable = False
                continue
            repeatable = letter not in "(|"
            if letter == "\\":
                self._escape()
            elif letter == "[":
                self._set()
            elif letter == "(":
                self._open()
            elif letter == ")":
                if not self.outer:
                    raise InvalidPattern("unexpected ): " + self.pattern)
                self._put(")" * self.added + ")")
                self.flags, self.base, self.added = self.outer.pop()
            elif letter == "$":
                self._put("(?:$)" if "m" in self.flags else r"(?:\Z)")
            elif letter == "^":
                self._put("(?:^)")
            elif letter == "|":
                self._put(")" * self.added + "|")
                self.added = 0
                self._change(self.base, self.flags)
            elif letter == "{":
                self._put(r"\{")
            else:
                self._put(letter)
        if self.outer:
            raise InvalidPattern("missing ): " + self.pattern)
        return "".join(self.found) + ")" * self.added

    def _put(self, text: str, size: int = 1) -> None:
        self.found.append(text)
        self.at += size

    def _repetition(self, repeatable: bool) -> bool:
        """Read ``*``, ``+``, ``?``, ``{2,3}``, with or without ``?`` after it; False if the ``{`` stands for itself."""
        match = _REPEAT.match(self.pattern, self.at)
        if self.pattern[self.at] == "{" and match is None:
            return False
        text = self.pattern[self.at] if match is None else match[0]
        if match is not None and max(int(match[1]), int(match[3] or 0)) > _MOST_REPEATS:
            raise InvalidPattern("invalid repetition size: " + text)
        if not repeatable:
            raise InvalidPattern("no argument for repetition operator: " + text)
        self._put(text, len(text))
        if self.pattern[self.at : self.at + 1] == "?":
            self._put("?")
        following = self.pattern[self.at : self.at + 1]
        if following and (following in "*+?" or _REPEAT.match(self.pattern, self.at)):
            raise InvalidPattern("bad repetition operator: " + text + following)
        return True

    def _begin(self, text: str, size: int, flags: str) -> None:
        """Begin a group in which ``flags`` hold."""
        self.outer.append((self.flags, self.base, self.added))
        self.flags = self.base = flags
        self.added = 0
        self._put(text, size)

    def _change(self, before: str, after: str) -> None:
        """Let other flags hold, until the end of the alternative."""
        change = _changed(before, after)
        if change:
            self.added += 1
            self.found.append(f"(?{change}:")

    def _open(self) -> None:
        rest = self.pattern[self.at :]
        if not rest.startswith("(?"):
            self._begin("(", 1, self.flags)
            return
        named = re.match(r"\(\?P?<(\w+)>", rest)
        if named is not None:
            self._begin(f"(?P<{named[1]}>", len(named[0]), self.flags)
            return
        match = _FLAGS.match(rest)
        if match is None:
            raise InvalidPattern("invalid perl operator: " + rest[:3])
        if "U" in match[1] + (match[2] or ""):
            raise InvalidPattern("the flag U is not supported here")
        before = self.flags
        after = "".join(sorted((set(before) | set(match[1])) - set(match[2] or "")))
        if match[3] == ":":
            self._begin(f"(?{_changed(before, after)}:", len(match[0]), after)
        else:
            self.at += len(match[0])
            self.flags = after
            self._change(before, after)

    # ----------------------------------------------------------------------------------------------- single characters
    def _character(self) -> str | None:
        """Read an escape that is one character; None (and nothing read) if it is something else."""
        rest = self.pattern[self.at : self.at + 12]
        letter = rest[1:2]
        number = re.match(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})", rest) or re.match(
            r"\\(0[0-7]{0,2}|[1-7][0-7]{2})", rest
        )
        if number is not None:
            digits = next(group for group in number.groups() if group)
            value = int(digits, 16 if letter == "x" else 8)
            if value > sys.maxunicode:
                raise InvalidPattern("invalid escape sequence: " + number[0])
            self.at += len(number[0])
            return re.escape(chr(value))
        if letter in _SAME and letter:
            self.at += 2
            return "\\" + letter
        if letter and letter.isascii() and not letter.isalnum():
            self.at += 2
            return re.escape(letter)
        return None

    def _class(self) -> str | None:
        """Read an escape that stands for several characters, as the inside a set; None if it is none."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in _LETTERS and letter:
            self.at += 2
            return _LETTERS[letter]
        if letter in ("p", "P"):
            match = re.compile(r"\\[pP](?:([A-Za-z])|\{(\^?)([A-Za-z_]+)\})").match(self.pattern, self.at)
            ranges = None if match is None else _category(match[1] or match[3], (letter == "P") != (match[2] == "^"))
            if match is None or ranges is None:
                raise InvalidPattern(f"the class {self.pattern[self.at : self.at + 12]!r} is not supported here")
            self.at += len(match[0])
            return ranges
        return None

    def _escape(self) -> None:
        rest = self.pattern[self.at : self.at + 2]
        if rest == "\\Q":
            end = self.pattern.find("\\E", self.at)
            text = self.pattern[self.at + 2 : end if end >= 0 else None]
            self._put(re.escape(text), len(text) + (4 if end >= 0 else 2))
            return
        special = {"\\A": r"(?:\A)", "\\z": r"(?:\Z)", "\\b": _EDGE, "\\B": _NO_EDGE}.get(rest)
        if special is not None:
            self._put(special, 2)
            return
        ranges = self._class()
        if ranges is not None:
            self.found.append(f"[{ranges}]")
            return
        character = self._character()
        if character is None:
            raise InvalidPattern("trailing \\" if len(rest) < 2 else "invalid escape sequence: " + rest)
        self.found.append(character)

    def _set(self) -> None:
        start = self.at
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        parts: list[str] = []
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise InvalidPattern("missing ]: " + self.pattern[start:])
            if self.pattern[self.at] == "]" and not first:
                self.at += 1
                break
            first = False
            parts.append(self._item(start))
        self.found.append(f"[{'^' if negated else ''}{''.join(parts)}]")

    def _item(self, start: int) -> str:
        """Read a member of a set: a class, a character or a range."""
        named = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at)
        if named is not None:
            if named[2] not in _CLASSES:
                raise InvalidPattern("invalid character class range: " + named[0])
            self.at += len(named[0])
            return (_NEGATED if named[1] else _CLASSES)[named[2]]
        if self.pattern[self.at] == "\\":
            ranges = self._class()
            if ranges is not None:
                return ranges
        low = self._member(start)
        if self.pattern[self.at : self.at + 1] != "-" or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        self.at += 1
        high = self._member(start)
        if _plain(low) > _plain(high):
            raise InvalidPattern("invalid character class range: " + self.pattern[start : self.at])
        return f"{low}-{high}"

    def _member(self, start: int) -> str:
        if self.at >= len(self.pattern):
            raise InvalidPattern("missing ]: " + self.pattern[start:])
        letter = self.pattern[self.at]
        if letter == "\\":
            character = self._character()
            if character is None:
                raise InvalidPattern("invalid escape sequence: " + self.pattern[self.at : self.at + 2])
            return character
        self.at += 1
        return letter if letter.isalnum() else re.escape(letter)


def _changed(before: str, after: str) -> str:
    """What stands between ``(?`` and ``:`` for these flags."""
    off = "".join(sorted(set(before) - set(after)))
    return "".join(sorted(set(after) - set(before))) + (f"-{off}" if off else "")


def _plain(member: str) -> str:
    """The character that a member of a set is."""
    if len(member) == 2 and member[1] in _SAME:
        return {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}[member[1]]
    return member[-1]


@memoized("Unicode categories", 64)
def _category(name: str, negated: bool) -> str | None:
    """Ranges of the characters of a Unicode category, or of all others; None for anything else."""
    known = {unicodedata.category(chr(code)) for code in range(0x3000)} | {"Cs", "Co", "Cn"}
    if name == "Any":
        return r"\x00-\U0010ffff" if not negated else None
    if name not in known and name not in {item[0] for item in known}:
        return None
    ranges = []
    low = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and (unicodedata.category(chr(code)).startswith(name) != negated)
        if inside and low is None:
            low = code
        elif not inside and low is not None:
            ranges.append(f"\\U{low:08x}-\\U{code - 1:08x}")
            low = None
    return "".join(ranges)


__all__ = ["InvalidPattern", "compiled"]
