"""Callables of a loaded model: named inputs to named outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.operation import Operation
from anabranch.core.values import shapes
from anabranch.saved_model.composite import Leaf


class Signature:
    """A way to call a loaded model: ``signature(x=array)`` gives ``{"y": array}``.

    Args:
        name: its name.
        session: session of the model.
        inputs: tensors that are fed, by name, in the order of positional arguments; a list of the parts of a value that
            ``leaves`` describes.
        outputs: tensors that are fetched, by name, or such lists.
        effects: operations that run, too.
        defaults: values of inputs that may be left out.
        leaves: how inputs and outputs (by name) that are not tensors are made of some.
    """

    def __init__(
        self,
        name: str,
        session: Any,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        effects: list[Operation] | None = None,
        defaults: Mapping[str, Any] | None = None,
        leaves: tuple[Mapping[str, Leaf], Mapping[str, Leaf]] = ({}, {}),
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        """Tensors that are fed, by name."""
        self.outputs = dict(outputs)
        """Tensors that are fetched, by name."""
        self._defaults = dict(defaults or {})
        self._effects = list(effects or ())
        self._taken, self._given = leaves
        fed = [part for value in self.inputs.values() for part in (value if isinstance(value, list) else [value])]
        self._run: Callable[..., Any] = session.make_callable([self.outputs, self._effects], feed_list=fed)

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the signature.

        Args:
            args: values in the order of :attr:`inputs`.
            kwargs: values by name.

        Returns:
            Arrays by name.

        Raises:
            TypeError: an input is missing, unknown or given twice.
        """
        names = list(self.inputs)
        if len(args) > len(names):
            raise TypeError(self._told(f"{len(args)} positional arguments"))
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in self.inputs:
                raise TypeError(self._told(f"an argument called {key!r}"))
            if key in given:
                raise TypeError(self._told(f"argument {key!r} twice"))
            given[key] = value
        missing = [key for key in names if key not in given and key not in self._defaults]
        if missing:
            raise TypeError(self._told(f"no value for {missing}"))
        values: list[Any] = []
        for key in names:
            value = given[key] if key in given else self._defaults[key]
            values += self._taken[key].unpack(value) if key in self._taken else [value]
        outputs: dict[str, Any] = self._run(*values)[0]
        for key, leaf in self._given.items():
            outputs[key] = leaf.pack(outputs[key])
        return outputs

    def _told(self, problem: str) -> str:
        wanted = ", ".join(f"{key}=..." for key in self.inputs)
        return errors.message(
            f"signature {self.name!r} called with {problem}", f"({self.shown_inputs()})", f"signature({wanted})"
        )

    def shown_inputs(self) -> str:
        """The inputs as text."""
        return ", ".join(f"{key}: {_shown(value, self._taken.get(key))}" for key, value in self.inputs.items())

    def shown_outputs(self) -> str:
        """The outputs as text."""
        return ", ".join(f"{key}: {_shown(value, self._given.get(key))}" for key, value in self.outputs.items())

    def __repr__(self) -> str:
        return f"<Signature {self.name}({self.shown_inputs()}) -> {{{self.shown_outputs()}}}>"


def _shown(tensor: Any, leaf: Leaf | None) -> str:
    if leaf is not None:
        return leaf.shown()
    raw = getattr(tensor, "_shape", None)
    return f"{tensor.dtype.base.name}{shapes.show(raw)}"


class Unavailable:
    """A signature that cannot be called; calling it says why."""

    def __init__(self, name: str, problem: Exception) -> None:
        self.name = name
        self.problem = problem

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Raise what kept the signature from being built."""
        raise self.problem

    def __repr__(self) -> str:
        return f"<Signature {self.name}, which cannot be called: {str(self.problem).splitlines()[0]}>"


__all__ = ["Signature", "Unavailable"]
