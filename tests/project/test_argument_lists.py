"""Public functions and classes take the arguments of TensorFlow 1.15, in its order and with its defaults.

`tests/golden/api_arguments.json` has the argument list of each (see `tools/golden/names/api_arguments.py`). Ours may go
on where TensorFlow's ends. None stands for any default: functions say what it means.
"""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

from anabranch import _public
from anabranch.compat import check

GOLDEN: dict[str, list[list[str]]] = json.loads(
    (Path(__file__).parents[1] / "golden/api_arguments.json").read_text(encoding="utf-8")
)
# Lists that differ on purpose: symbol -> reason.
ACCEPTED = {
    "tf.Operation": "operations are made by the graph, not by programs",
    "tf.RaggedTensor": "made by its factories only; what TensorFlow keeps of other partitions is no argument here",
    "tf.contrib.lookup.InitializableLookupTableBase": "a base class, which programs do not make",
    "tf.contrib.lookup.MutableDenseHashTable": "`shared_name` stands where versions before 1.13 had it",
    "tf.contrib.lookup.MutableHashTable": "`shared_name` stands where versions before 1.13 had it",
    "tf.lookup.experimental.DenseHashTable": "`shared_name` stands where versions before 1.13 had it",
    "tf.nn.softmax_cross_entropy_with_logits_v2": "arguments are given by name, as versions before 1.13 demand",
    "tf.saved_model.load": "TensorFlow 2's order; called with a session first, it is version 1's",
}
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def signature_of(value: Any) -> inspect.Signature | None:
    """The signature of a function or class; None for what Python knows none of."""
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def same_default(own: Any, text: str) -> bool:
    """Whether a default is TensorFlow's, as far as its text says what it is."""
    if own is None or text == "...":
        return True
    if text.startswith("tf."):
        return getattr(own, "name", None) == text[3:]
    try:
        wanted = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return True
    if isinstance(own, bytes):
        own = own.decode()
    if isinstance(wanted, (list, tuple)):
        return list(own) == list(wanted)
    return bool(own == wanted)


def problems(value: Any, wanted: list[list[str]]) -> list[str]:
    """In what an argument list differs from TensorFlow's."""
    signature = signature_of(value)
    if signature is None:
        return []
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    names = [_STARS.get(parameter.kind, "") + parameter.name for parameter in own]
    found = []
    for place, (name, *default) in enumerate(item for item in wanted if item[0] != "self"):
        if name not in names:
            if not name.startswith("*"):
                found.append(f"no argument {name!r}")
            continue
        position = names.index(name)
        if position != place and not name.startswith("*"):
            found.append(f"{name!r} is argument {position}, not {place}")
        if default and own[position].default is inspect.Parameter.empty and not name.startswith("*"):
            found.append(f"{name!r} has no default, not {default[0]}")
        elif default and not same_default(own[position].default, default[0]):
            found.append(f"{name}={own[position].default!r}, not {default[0]}")
    return found


def test_argument_lists() -> None:
    _public.load_everything()
    differing = {}
    compared = 0
    for symbol, wanted in GOLDEN.items():
        value, _ = check.lookup(symbol.removeprefix("tf."))
        if value is check.MISSING or value is None:
            continue
        compared += 1
        found = problems(value, wanted)
        if found:
            differing[symbol] = found
    assert compared > 1500
    lines = [f"{symbol}: {'; '.join(found)}" for symbol, found in differing.items() if symbol not in ACCEPTED]
    assert not lines, (
        "\n".join(lines)
        + "\nMend: write the arguments as TensorFlow has them, or put the symbol into ACCEPTED with the "
        "reason."
    )
    stale = sorted(set(ACCEPTED) - set(differing))
    assert not stale, f"{stale} no longer differ.\nMend: take them out of ACCEPTED."


def test_differences_are_found() -> None:
    def function(a: Any, b: int = 2, c: Any = None, more: int = 0) -> None:
        """Nothing."""

    assert problems(function, [["a"], ["b", "2"], ["c", "'x'"]]) == []
    assert problems(function, [["a"], ["b", "3"]]) == ["b=2, not 3"]
    assert problems(function, [["b", "2"], ["a"]]) == ["'b' is argument 1, not 0", "'a' is argument 0, not 1"]
    assert problems(function, [["a"], ["d", "2"]]) == ["no argument 'd'"]
    assert problems(function, [["a", "1"]]) == ["'a' has no default, not 1"]
    assert same_default("x", "'x'")
    assert same_default([1, 1], "(1, 1)")
    assert not same_default(1.0, "2.0")
