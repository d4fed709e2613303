"""How much of what public programs use of TensorFlow 1.x is here, and whether signatures are the same.

`tests/golden/api.json` counts uses in public programs (see `tools/golden/names/api.py`). Coverage is weighted by use:

    python -m pytest tests/project/test_coverage.py -rP
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from anabranch import _public
from anabranch.compat import check

GOLDEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden/api.json").read_text(encoding="utf-8")
)
# Raise these when coverage rises; they never go down.
COVERED = 0.997
KEYWORDS_COVERED = 0.999
# Signatures that differ on purpose: symbol -> reason.
DIFFERENT = {
    "tf.Operation": "operations are made by the graph, not by programs",
    "tf.decode_raw": "1.15's order; `input_bytes` takes the place that `bytes` had, with the same meaning",
    "tf.variance_scaling_initializer": "1.15's default; `normal` is its old name and means the same",
    "tf.initializers.variance_scaling": "1.15's default; `normal` is its old name and means the same",
    "tf.string_split": "1.15's order; `sep` takes the place that `delimiter` had, with the same meaning",
    "tf.nn.weighted_cross_entropy_with_logits": "1.15's order; `labels` takes the place that `targets` had",
    "tf.sparse_reduce_sum": "1.15's order: the newer spellings come first",
}


def find(symbol: str) -> Any:
    """The object of a symbol, None if there is none."""
    found, _ = check.lookup(symbol.removeprefix("tf."))
    return None if found is check.MISSING else found if found is not None else found is None


def there() -> dict[str, Any]:
    """Symbols that are here."""
    _public.load_everything()
    found = {symbol: find(symbol) for symbol in GOLDEN}
    return {symbol: value for symbol, value in found.items() if value is not None}


HERE = there()


def parameters(signature: str) -> list[tuple[str, str | None]]:
    """Names and defaults, as text, of a signature of the table."""
    parts, depth, current = [], 0, ""
    for character in signature.strip()[1:-1]:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    return [
        (name.strip(), default if equals else None)
        for name, equals, default in (part.partition("=") for part in parts)
        if name.strip()
    ]


def signature_of(value: Any) -> inspect.Signature | None:
    """The signature of a function or class; None for what Python knows none of."""
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def own_parameters(value: Any, wanted: list[tuple[str, str | None]]) -> list[inspect.Parameter]:
    """Our parameters; `self` is left out where the table leaves it out."""
    signature = signature_of(value)
    assert signature is not None
    own = list(signature.parameters.values())
    return own[1:] if own and own[0].name == "self" and (not wanted or wanted[0][0] != "self") else own


def same_default(own: Any, wanted: str) -> bool:
    """Whether a default is the one of the table. None stands for it, too: functions say what it means."""
    wanted = wanted.replace("COMMA", ",")
    if own is None or wanted == "...":
        return True
    text = getattr(own, "name", None) if hasattr(own, "as_numpy_dtype") else str(own)
    try:
        return float(text) == float(wanted)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(text).replace("[", "(").replace("]", ")") == wanted.replace("[", "(").replace("]", ")")


def problems(value: Any, text: str) -> list[str]:
    """In what our signature differs from the table's."""
    wanted = parameters(text)
    own = own_parameters(value, wanted)
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [stars.get(parameter.kind, "") + parameter.name for parameter in own]
    found = []
    # An argument with an old and a new spelling stands in the place of the first under one of them.
    place = 0
    for name, default in wanted:
        if name not in names:
            found.append(f"no argument {name!r}")
            continue
        position = names.index(name)
        if default is None and not name.startswith("*") and position != place:
            found.append(f"{name!r} is argument {position}, not {place}")
        if default is not None and not same_default(own[position].default, default):
            found.append(f"{name}={own[position].default!r}, not {default}")
        place += 1
    order = [names.index(name) for name, _ in wanted if name in names and not name.startswith("*")]
    if order != sorted(order):
        found.append(f"order {[name for name in names if name in dict(wanted)]}")
    return found


WITH_SIGNATURE = sorted(s for s in HERE if GOLDEN[s]["signature"] and signature_of(HERE[s]) is not None)


@pytest.mark.parametrize("symbol", WITH_SIGNATURE)
def test_signature(symbol: str) -> None:
    found = problems(HERE[symbol], GOLDEN[symbol]["signature"])
    if symbol in DIFFERENT:
        assert found, f"{symbol} no longer differs ({DIFFERENT[symbol]}).\nMend: take it out of DIFFERENT."
        return
    assert not found, (
        f"{symbol}: {'; '.join(found)}\nTensorFlow: {GOLDEN[symbol]['signature']}\nours: {signature_of(HERE[symbol])}\n"
        "Mend: write the arguments as TensorFlow has them, or put the symbol into DIFFERENT with the reason."
    )


def test_differences_are_found() -> None:
    def function(a: Any, b: int = 2, *, c: None = None) -> None:
        """Nothing."""

    assert problems(function, "(a, b=2, c=None)") == []
    assert problems(function, "(a, b=2.0)") == []
    assert problems(function, "(a, b=3)") == ["b=2, not 3"]
    assert problems(function, "(a, d=3)") == ["no argument 'd'"]
    assert problems(function, "(b, a)") == ["'b' is argument 1, not 0", "'a' is argument 0, not 1", "order ['a', 'b']"]
    assert problems(function, "(a, *b)") == ["no argument '*b'"]


def test_keywords_that_programs_pass() -> None:
    total = taken = 0
    missing = []
    for symbol, value in HERE.items():
        signature = signature_of(value)
        if signature is None:
            continue
        own = signature.parameters
        anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values())
        for keyword, uses in GOLDEN[symbol].get("keywords", {}).items():
            total += uses
            if anything or keyword in own:
                taken += uses
            else:
                missing.append((uses, f"{symbol}({keyword}=)"))
    print(f"keyword arguments: {taken / total:.2%} of {total} uses; not taken:", sorted(missing, reverse=True)[:20])
    assert taken / total >= KEYWORDS_COVERED


def test_coverage_weighted_by_use() -> None:
    total = sum(entry["uses"] for entry in GOLDEN.values())
    missing = sorted(((GOLDEN[symbol]["uses"], symbol) for symbol in GOLDEN if symbol not in HERE), reverse=True)
    covered = 1 - sum(uses for uses, _ in missing) / total
    print(f"names: {covered:.2%} of {total} uses, {len(HERE)} of {len(GOLDEN)} names")
    print("most used of what is missing:", ", ".join(f"{symbol} {uses}" for uses, symbol in missing[:40]))
    assert covered >= COVERED
