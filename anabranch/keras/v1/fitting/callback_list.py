"""The callbacks of one run of a model."""

from __future__ import annotations

from typing import Any

from anabranch.keras.v1.fitting.callbacks import BaseLogger, History, ProgbarLogger


class CallbackList:
    """Callbacks, called one after the other."""

    def __init__(self, callbacks: Any = None, queue_length: int = 10) -> None:
        self.callbacks = list(callbacks or [])
        self.queue_length = queue_length
        self.model: Any = None
        self.params: dict[str, Any] = {}
        self.validation: Any = None

    @classmethod
    def of(cls, model: Any, callbacks: Any, verbose: int, params: dict[str, Any], mode: str = "train") -> CallbackList:
        """The callbacks of a run of a model: those of the program, and what prints and keeps the history."""
        given = list(callbacks.callbacks if isinstance(callbacks, cls) else callbacks or [])
        made: list[Any] = [BaseLogger(), *given] if mode == "train" else given
        if mode == "train":
            history = History()
            object.__setattr__(model, "history", history)
            made.append(history)
        if verbose:
            made.append(ProgbarLogger("samples" if params.get("samples") is not None else "steps", mode=mode))
        running = cls(made)
        running.set_model(model)
        running.set_params(params)
        return running

    def append(self, callback: Any) -> None:
        """Add a callback at the end."""
        self.callbacks.append(callback)

    def set_params(self, params: dict[str, Any]) -> None:
        """Tell all what the run is like."""
        self.params = params
        for callback in self.callbacks:
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """Tell all which model it is."""
        self.model = model
        for callback in self.callbacks:
            callback.set_model(model)

    def call(self, hook: str, *arguments: Any) -> None:
        """Call one hook of all."""
        for callback in self.callbacks:
            if hook == "on_train_begin" and self.validation is not None:
                callback.validation_data = self.validation
            method = getattr(callback, hook, None)
            if method is None:
                continue
            if hook.endswith(("batch_begin", "batch_end", "epoch_begin", "epoch_end")):
                method(arguments[0], arguments[1] if len(arguments) > 1 else {})
            else:
                method(*arguments)
