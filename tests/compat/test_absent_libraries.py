"""Libraries that are not here can be imported and derived from through the alias, and raise when they are used."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from typing import Any

import pytest

import anabranch
from anabranch.compat import absent_libraries, check, hook


@pytest.fixture
def tf() -> Iterator[Any]:
    """TensorFlow's alias, for the length of a test."""
    yield hook.install()
    hook.uninstall()


@pytest.mark.parametrize("library", sorted(absent_libraries.LIBRARIES))
def test_all_modules_of_a_library_can_be_imported(tf: Any, library: str) -> None:
    for inner in absent_libraries.LIBRARIES[library].split():
        module = importlib.import_module(f"tensorflow.{library}.{inner}")
        assert isinstance(module.SomeClass, type)
    module = importlib.import_module(f"tensorflow.{library}")
    with pytest.raises(NotImplementedError, match=rf"Given: tf\.{library}\.run_it, of a library that is not here"):
        module.run_it(1)
    assert not hasattr(module, "__path_of_nothing__")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("estimator.Estimator", "MonitoredTrainingSession"),
        ("contrib.learn.DNNClassifier", "MonitoredTrainingSession"),
        ("contrib.tpu.TPUEstimator", "XLA compiles for the device at hand"),
        ("contrib.factorization.KMeansClustering", "scikit-learn"),
    ],
)
def test_a_class_can_be_derived_from_and_has_no_instances(tf: Any, name: str, advice: str) -> None:
    module, _, last = name.rpartition(".")
    base = getattr(importlib.import_module(f"tensorflow.{module}"), last)
    assert base is getattr(importlib.import_module(f"tensorflow.compat.v1.{module}"), last)
    derived = type("Derived", (base,), {"method": lambda self: 1})
    with pytest.raises(NotImplementedError, match=rf"(?s)Given: tf\.{name}.*Instead: .*{advice}"):
        derived(1, two=2)


def test_what_is_plain_data_is_there(tf: Any) -> None:
    assert (tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT) == (
        "train",
        "eval",
        "infer",
    )
    assert tf.contrib.learn.ModeKeys.INFER == "infer"
    assert tf.estimator.tpu.InputPipelineConfig.PER_HOST_V2 == 3
    assert tf.estimator.SessionRunHook is anabranch.train.SessionRunHook
    assert (
        tf.contrib.learn.preprocessing.VocabularyProcessor is anabranch.contrib.learn.preprocessing.VocabularyProcessor
    )


def test_the_public_interface_does_not_have_them() -> None:
    assert not hasattr(anabranch, "estimator")
    with pytest.raises(AttributeError, match=r"Instead: plain optimizers and a session"):
        _ = anabranch.contrib.tpu


def test_check_reports_them_as_missing() -> None:
    program = (
        "import tensorflow as tf\n"
        "from tensorflow.contrib.tpu.python.tpu import tpu_config\n"
        "run = tf.estimator.Estimator(None)\n"
        "words = tf.contrib.learn.preprocessing.VocabularyProcessor(3)\n"
        "s = tf.distribute.MirroredStrategy\n"
    )
    findings = {finding.line: finding.symbol for finding in check.check_source(program)}
    assert findings == {2: "tf.contrib.tpu", 3: "tf.estimator"}


def test_the_parts_that_are_here_are_given(tf: Any) -> None:
    for library in absent_libraries.LIBRARIES:
        try:
            part = importlib.import_module(f"anabranch.{library}")
        except ModuleNotFoundError:
            continue
        for name in dir(part):
            item = getattr(part, name)
            if not name.startswith("_") and not isinstance(item, types.ModuleType):
                assert getattr(importlib.import_module(f"tensorflow.{library}"), name) is item
    assert tf.contrib.factorization.WALSModel is anabranch.contrib.factorization.WALSModel
    manager = tf.contrib.mixed_precision.FixedLossScaleManager(8.0)
    assert type(manager) is anabranch.contrib.mixed_precision.FixedLossScaleManager
