"""``tf.keras.wrappers.scikit_learn``: models as estimators of scikit-learn, which is not needed itself.

An estimator is given the arguments of the function that builds its model, and those of ``fit`` and ``predict``, when it
is made, and by `set_params`; each goes to the functions that have a parameter of its name.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.keras.v1 import losses, utilities
from anabranch.keras.v1.sequential import Sequential

_METHODS = (Sequential.fit, Sequential.predict, Sequential.predict_classes, Sequential.evaluate)


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


class BaseWrapper:
    """What the classifier and the regressor share.

    Args:
        build_fn: a function, or an object that is called, that gives a compiled model; the estimator itself if None.
        sk_params: arguments of it, and of the model's methods.

    Raises:
        ValueError: nothing has a parameter of such a name.
    """

    def __init__(self, build_fn: Any = None, **sk_params: Any) -> None:
        self.build_fn = build_fn
        self.sk_params = sk_params
        self.check_params(sk_params)

    def _builder(self) -> Callable[..., Any]:
        builder: Callable[..., Any] = getattr(self, "__call__") if self.build_fn is None else self.build_fn  # noqa: B004, B009
        return builder

    def check_params(self, params: Iterable[str]) -> None:
        """Refuse arguments that nothing takes."""
        known = {"nb_epoch"}.union(*[_parameters(function) for function in (*_METHODS, self._builder())])
        for name in params:
            if name not in known:
                raise ValueError(
                    f"{name} is not a legal parameter\n"
                    + errors.message(f"{name}=", f"one of {', '.join(sorted(known - {'self'}))}", "epochs=3")
                )

    def get_params(self, **params: Any) -> dict[str, Any]:
        """The arguments that it was given."""
        return {**copy.deepcopy(self.sk_params), "build_fn": self.build_fn}

    def set_params(self, **params: Any) -> BaseWrapper:
        """Change some of them."""
        self.check_params(params)
        self.sk_params.update(params)
        return self

    def filter_sk_params(self, fn: Callable[..., Any], override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Those that a function takes, and ``override``."""
        names = _parameters(fn)
        return {**{name: value for name, value in self.sk_params.items() if name in names}, **(override or {})}

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Build a model and train it; what the model's ``fit`` gives.

        Args:
            x: inputs ``[samples, ...]``.
            y: labels or numbers ``[samples]``, or ``[samples, outputs]``.
            kwargs: more arguments of ``fit``.
        """
        builder = self._builder()
        self.model = builder(**self.filter_sk_params(builder))
        loss = self.model.loss
        if losses.get(loss) is losses.categorical_crossentropy and np.ndim(y) != 2:
            y = utilities.to_categorical(y)
        return self.model.fit(x, y, **self.filter_sk_params(Sequential.fit, kwargs))


class KerasClassifier(BaseWrapper):
    """A classifier: labels may be any values."""

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Build a model and train it; what the model's ``fit`` gives.

        Args:
            x: inputs ``[samples, ...]``.
            y: labels ``[samples]``, or one for each class ``[samples, classes]``.
            kwargs: more arguments of ``fit``.

        Raises:
            ValueError: labels of another rank.
        """
        y = np.array(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
        elif y.ndim in (1, 2):
            self.classes_ = np.unique(y)
            y = np.searchsorted(self.classes_, y)
        else:
            raise ValueError(
                f"Invalid shape for y: {y.shape}\n"
                + errors.message(f"labels of shape {y.shape}", "a vector or a matrix", "y.reshape(-1)")
            )
        self.n_classes_ = len(self.classes_)
        return super().fit(x, y, **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> Any:
        """The labels of inputs."""
        given = self.filter_sk_params(Sequential.predict_classes, kwargs)
        return self.classes_[self.model.predict_classes(x, **given)]

    def predict_proba(self, x: Any, **kwargs: Any) -> Any:
        """The probability of each class for inputs ``[samples, classes]``."""
        probabilities = self.model.predict(x, **self.filter_sk_params(Sequential.predict, kwargs))
        if probabilities.shape[1] == 1:  # of the second of two classes
            probabilities = np.hstack([1 - probabilities, probabilities])
        return probabilities

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """The share of labels that are right.

        Raises:
            ValueError: the model was not compiled with the metric.
        """
        y = np.searchsorted(self.classes_, y)
        if losses.get(self.model.loss) is losses.categorical_crossentropy and np.ndim(y) != 2:
            y = utilities.to_categorical(y)
        outputs = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, kwargs))
        values = outputs if isinstance(outputs, list) else [outputs]
        for name, value in zip(self.model.metrics_names, values, strict=False):
            if name in ("acc", "accuracy"):
                return float(value)
        raise ValueError(
            "The model is not configured to compute accuracy.\n"
            + errors.message(
                f"a model with the metrics {self.model.metrics_names}",
                "a model that computes accuracy",
                "model.compile(optimizer, loss, metrics=['accuracy'])",
            )
        )


class KerasRegressor(BaseWrapper):
    """An estimator of numbers."""

    def predict(self, x: Any, **kwargs: Any) -> Any:
        """The numbers for inputs."""
        return np.squeeze(self.model.predict(x, **self.filter_sk_params(Sequential.predict, kwargs)), axis=-1)

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """Minus the loss."""
        loss = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, kwargs))
        return -float(loss[0] if isinstance(loss, list) else loss)


__all__ = ["BaseWrapper", "KerasClassifier", "KerasRegressor"]
