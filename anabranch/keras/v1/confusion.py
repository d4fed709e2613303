"""Metrics of true and false positives and negatives."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import losses, state
from anabranch.keras.v1.metrics import Metric, _add, _written, registry


class _Confusion(Metric):
    """What counts true and false positives and negatives at thresholds."""

    _kinds: tuple[str, ...] = ()

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self._single = not isinstance(thresholds, (list, tuple))
        self.init_thresholds = thresholds
        self.thresholds = [0.5 if thresholds is None else thresholds] if self._single else list(thresholds)
        outside = [t for t in self.thresholds if t is None or not 0 <= t <= 1]
        if outside and not getattr(self, "_own_thresholds", False):
            raise ValueError(
                f"Threshold values must be in [0, 1]. Invalid values: {outside}\n"
                + errors.message(str(outside), "numbers within 0 and 1", "thresholds=[0.5]")
            )
        self._counts = {kind: self.add_weight(kind, (len(self.thresholds),)) for kind in self._kinds}
        for kind, variable in self._counts.items():
            object.__setattr__(self, kind, variable)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Take targets of 0 and 1 and predictions within 0 and 1 in."""
        y_pred = tf.cast(y_pred, self.dtype)
        is_true = tf.reshape(tf.cast(y_true, tf.bool), [1, -1])
        limits = tf.reshape(tf.constant(self.thresholds, self.dtype), [-1, 1])
        is_chosen = tf.reshape(y_pred, [1, -1]) > limits
        weight: Any = tf.ones([1, 1], self.dtype)
        if sample_weight is not None:
            weight = tf.cast(losses._fitted(y_pred, sample_weight), self.dtype) * tf.ones_like(y_pred)
            weight = tf.reshape(weight, [1, -1])
        cells = {
            "true_positives": tf.logical_and(is_true, is_chosen),
            "false_positives": tf.logical_and(tf.logical_not(is_true), is_chosen),
            "false_negatives": tf.logical_and(is_true, tf.logical_not(is_chosen)),
            "true_negatives": tf.logical_and(tf.logical_not(is_true), tf.logical_not(is_chosen)),
        }
        return _written(
            *[_add(v, tf.reduce_sum(tf.cast(cells[kind], self.dtype) * weight, 1)) for kind, v in self._counts.items()]
        )

    def _share(self, part: Any, rest: Any) -> Any:
        value = tf.div_no_nan(tf.identity(part), part + rest)
        return value[0] if self._single else value

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), "thresholds": self.init_thresholds}


def _counting(class_name: str, kind: str) -> Any:
    def result(self: Any) -> Any:
        value = tf.identity(self._counts[kind])
        return value[0] if self._single else value

    result.__doc__ = "The count."
    body = {
        "_kinds": (kind,),
        "result": result,
        "__doc__": f"Number of {kind.replace('_', ' ')}.",
        "__module__": __name__,
    }
    return registry.add()(type(class_name, (_Confusion,), body))


TruePositives = _counting("TruePositives", "true_positives")
TrueNegatives = _counting("TrueNegatives", "true_negatives")
FalsePositives = _counting("FalsePositives", "false_positives")
FalseNegatives = _counting("FalseNegatives", "false_negatives")


class _OfClass(_Confusion):
    """Precision or recall, of the ``top_k`` greatest predictions or of one class if that is asked for."""

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        if thresholds is None and top_k is not None:
            self._own_thresholds = True
            thresholds = -1e30
        super().__init__(thresholds, name, dtype)
        self.top_k, self.class_id = top_k, class_id

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Take targets and predictions in."""
        y_pred = tf.cast(y_pred, self.dtype)
        if self.top_k is not None:
            _, best = tf.nn.top_k(y_pred, self.top_k, sorted=False)
            kept = tf.reduce_sum(tf.one_hot(best, tf.shape(y_pred)[-1], axis=-1), -2)
            y_pred = tf.where(
                tf.cast(kept, tf.bool), y_pred, tf.fill(tf.shape(y_pred), tf.constant(-np.inf, self.dtype))
            )
        if self.class_id is not None:
            y_true, y_pred = tf.convert_to_tensor(y_true)[..., self.class_id], y_pred[..., self.class_id]
        return super().update_state(y_true, y_pred, sample_weight)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), "top_k": self.top_k, "class_id": self.class_id}


@registry.add()
class Precision(_OfClass):
    """Share of the chosen that are true."""

    _kinds = ("true_positives", "false_positives")

    def result(self) -> Any:
        """The share."""
        return self._share(self._counts["true_positives"], self._counts["false_positives"])


@registry.add()
class Recall(_OfClass):
    """Share of the true that are chosen."""

    _kinds = ("true_positives", "false_negatives")

    def result(self) -> Any:
        """The share."""
        return self._share(self._counts["true_positives"], self._counts["false_negatives"])


class _Curve(_Confusion):
    _kinds = ("true_positives", "true_negatives", "false_positives", "false_negatives")

    def __init__(self, num_thresholds: int, name: str | None = None, dtype: Any = None, thresholds: Any = None) -> None:
        self._own_thresholds = True
        self.num_thresholds = num_thresholds
        inner = thresholds or [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        small = state.epsilon()
        super().__init__([-small, *sorted(inner), 1 + small] if num_thresholds > 1 else [0.5], name, dtype)
        self.num_thresholds = len(self.thresholds)

    def _rates(self) -> tuple[Any, Any]:
        tp, tn, fp, fn = (tf.identity(self._counts[kind]) for kind in self._kinds)
        return tf.div_no_nan(tp, tp + fn), tf.div_no_nan(tn, tn + fp)


@registry.add()
class AUC(_Curve):
    """Area under the curve of receivers (``'ROC'``) or of precision and recall (``'PR'``)."""

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Any = None,
    ) -> None:
        if curve not in ("ROC", "PR") or summation_method not in ("interpolation", "majoring", "minoring"):
            raise ValueError(
                f'Invalid AUC curve value "{curve}" or summation method "{summation_method}".\n'
                + errors.message(f"{curve!r}, {summation_method!r}", "'ROC' or 'PR', and a method", "AUC(curve='PR')")
            )
        self.curve, self.summation_method = curve, summation_method
        super().__init__(num_thresholds, name, dtype, thresholds)

    def result(self) -> Any:
        """The area."""
        tp, tn, fp, fn = (tf.identity(self._counts[kind]) for kind in self._kinds)
        recall = tf.div_no_nan(tp, tp + fn)
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._interpolated(tp, fp, fn)
        x, y = (recall, tf.div_no_nan(tp, tp + fp)) if self.curve == "PR" else (tf.div_no_nan(fp, fp + tn), recall)
        pair = {
            "interpolation": (y[:-1] + y[1:]) / 2.0,
            "minoring": tf.minimum(y[:-1], y[1:]),
            "majoring": tf.maximum(y[:-1], y[1:]),
        }
        return tf.reduce_sum((x[:-1] - x[1:]) * pair[self.summation_method])

    def _interpolated(self, tp: Any, fp: Any, fn: Any) -> Any:
        true_steps = tp[:-1] - tp[1:]
        positives = tp + fp
        steps = positives[:-1] - positives[1:]
        slope = tf.div_no_nan(true_steps, tf.maximum(steps, 0))
        intercept = tp[1:] - slope * positives[1:]
        both = tf.logical_and(positives[:-1] > 0, positives[1:] > 0)
        ratio = tf.where(both, tf.div_no_nan(positives[:-1], tf.maximum(positives[1:], 0)), tf.ones_like(positives[1:]))
        increment = tf.div_no_nan(slope * (true_steps + intercept * tf.log(ratio)), tf.maximum(tp[1:] + fn[1:], 0))
        return tf.reduce_sum(increment)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "num_thresholds": self.num_thresholds,
            "curve": self.curve,
            "summation_method": self.summation_method,
            # The two ends are added again.
            "thresholds": self.thresholds[1:-1],
        }


@registry.add()
class SensitivityAtSpecificity(_Curve):
    """Greatest sensitivity at a threshold where the specificity is as given."""

    def __init__(
        self, specificity: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None
    ) -> None:
        self.specificity = specificity
        super().__init__(num_thresholds, name, dtype)

    def result(self) -> Any:
        """The sensitivity."""
        sensitivities, specificities = self._rates()
        return tf.gather(sensitivities, tf.argmin(tf.abs(specificities - self.specificity)))


@registry.add()
class SpecificityAtSensitivity(_Curve):
    """Specificity at the threshold where the sensitivity is as given."""

    def __init__(
        self, sensitivity: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None
    ) -> None:
        self.sensitivity = sensitivity
        super().__init__(num_thresholds, name, dtype)

    def result(self) -> Any:
        """The specificity."""
        sensitivities, specificities = self._rates()
        return tf.gather(specificities, tf.argmin(tf.abs(sensitivities - self.sensitivity)))
