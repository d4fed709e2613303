"""Callables of a loaded model: named inputs to named outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.core import errors, shapes
from anabranch.core.operation import Operation, Tensor


class Signature:
    """A way to call a loaded model: ``signature(x=array)`` gives ``{"y": array}``.

    Args:
        name: its name.
        session: session of the model.
        inputs: tensors that are fed, by name, in the order of positional arguments.
        outputs: tensors that are fetched, by name.
        effects: operations that run, too.
        defaults: values of inputs that may be left out.
    """

    def __init__(
        self,
        name: str,
        session: Any,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Any],
        effects: list[Operation] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        """Tensors that are fed, by name."""
        self.outputs = dict(outputs)
        """Tensors that are fetched, by name."""
        self._defaults = dict(defaults or {})
        self._effects = list(effects or ())
        self._run: Callable[..., Any] = session.make_callable(
            [self.outputs, self._effects], feed_list=list(self.inputs.values())
        )

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Runs the signature.

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
        values = [given[key] if key in given else self._defaults[key] for key in names]
        found: dict[str, Any] = self._run(*values)[0]
        return found

    def _told(self, problem: str) -> str:
        return errors.message(f"signature {self.name!r} called with {problem}", f"({self.shown_inputs()})", "see above")

    def shown_inputs(self) -> str:
        """The inputs as text."""
        return ", ".join(f"{key}: {_shown(tensor)}" for key, tensor in self.inputs.items())

    def shown_outputs(self) -> str:
        """The outputs as text."""
        return ", ".join(f"{key}: {_shown(tensor)}" for key, tensor in self.outputs.items())

    def __repr__(self) -> str:
        return f"<Signature {self.name}({self.shown_inputs()}) -> {{{self.shown_outputs()}}}>"


def _shown(tensor: Any) -> str:
    raw = getattr(tensor, "_shape", None)
    return f"{tensor.dtype.base.name}{shapes.show(raw)}"


class Unavailable:
    """A signature that cannot be called; calling it says why."""

    def __init__(self, name: str, problem: Exception) -> None:
        self.name = name
        self.problem = problem

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Raises what kept the signature from being built."""
        raise self.problem

    def __repr__(self) -> str:
        return f"<Signature {self.name}, which cannot be called: {str(self.problem).splitlines()[0]}>"


__all__ = ["Signature", "Unavailable"]
