"""``tf.contrib``: libraries that load when they are named, one module or package of this folder for each.

A library publishes its names as everything does, ``@public("contrib.training.HParams")``, and ends with
``__getattr__, __dir__ = api.module_attributes("contrib.training")``. Names that a library outside this folder
publishes
under ``contrib.`` (the cells of ``anabranch.rnn`` as ``contrib.rnn.LSTMCell``) are found without a module here. Nothing
of this folder loads before a program says ``tf.contrib.<library>`` or ``from anabranch.contrib import <library>``.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import api

_find, _listing = api.module_attributes("contrib")
_modules = frozenset(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
# Libraries of TensorFlow 1.15's contrib that are not here, and what does their work.
ELSEWHERE = {
    "bayesflow": "tf.random_* and a loop of your own",
    "boosted_trees": "scikit-learn or XGBoost",
    "cloud": "fsspec, and local files for the program",
    "estimator": "a training loop with tf.train.MonitoredTrainingSession",
    "factorization": "scikit-learn",
    "gan": "losses and optimizers used directly",
    "learn": "a training loop with tf.train.MonitoredTrainingSession",
    "quantize": "float graphs",
    "tensor_forest": "scikit-learn",
    "tensorrt": "the session, which XLA compiles",
    "timeseries": "statsmodels",
    "tpu": "plain optimizers and a session: XLA compiles for the device at hand",
    "xla": "nothing: every step is compiled by XLA",
}


def __getattr__(name: str) -> Any:
    if name in _modules:
        return importlib.import_module(f"{__name__}.{name}")
    try:
        return _find(name)
    except AttributeError:
        if name not in ELSEWHERE:
            raise
        raise AttributeError(
            errors.message(
                f"tf.contrib.{name}, a library of TensorFlow 1.x that is not here",
                f"one of {', '.join(__dir__())}",
                ELSEWHERE[name],
            ),
            name=name,
        ) from None


def __dir__() -> list[str]:
    return sorted({*_modules, *_listing()})
