"""Which TensorFlow a name belongs to, and what to write where it is not here."""

from __future__ import annotations

import functools
from importlib import resources

from anabranch import contrib
from anabranch.core import errors
from anabranch.core.contract import absent, api

# Names of TensorFlow 2 that programs for version 1 meet now and then.
_SECOND = ("optimizers", "saved_model.save", "distribute")


@functools.cache
def known_names() -> frozenset[str]:
    """Names of TensorFlow's public interface that public programs use."""
    return frozenset(resources.files(__package__).joinpath("known_names.txt").read_text(encoding="utf-8").split())


def belongs_to(name: str) -> str:
    """The version of TensorFlow that a name (without ``tf.``) belongs to, as text."""
    if any(f"{name}.".startswith(f"{second}.") for second in _SECOND):
        return "TensorFlow 2, and 1.x's last versions"
    if name.split(".")[0] in ("python", "core", "compiler"):
        return "TensorFlow's internals, which are not public"
    if name.startswith("contrib."):
        return "TensorFlow 1.x's contrib, gone since 2.0"
    if name in known_names():
        return "TensorFlow 1.x"
    if any(known.startswith(name + ".") for known in known_names()):
        return "TensorFlow 1.x, a namespace"
    return "no TensorFlow 1.x that is known here: a name of the program's own, or misspelt"


def instead(name: str) -> str:
    """What to write instead of a name (without ``tf.``) that is not here."""
    if (advice := absent.instead(name)) is not None:
        return advice
    if near := api.similar_names(name, 0.8):
        return f"one of {', '.join(near)}"
    if name.startswith("contrib."):
        return f"one of the libraries {', '.join(dir(contrib))}"
    return "ops that are there (dir(tf) lists them), tf.py_func for what NumPy can do, or tf.Op for an op of your own"


def explain(name: str) -> str:
    """The three parts of an error about a name that is not here."""
    return errors.message(f"tf.{name}, of {belongs_to(name)}", "a name that Anabranch has", instead(name))
