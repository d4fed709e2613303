"""Layers, nets, metrics and losses against what TensorFlow's libraries made of the same cases.

`tests/golden/library.json` is written by `tools/golden/names/library.py`: names and shapes of variables, members of
collections, tags of summaries, values.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/library.json").read_text(encoding="utf-8"))
_spec = importlib.util.spec_from_file_location("golden_library", ROOT / "tools" / "golden" / "names" / "library.py")
assert _spec is not None
assert _spec.loader is not None
library = importlib.util.module_from_spec(_spec)
sys.modules["golden_library"] = library
_spec.loader.exec_module(library)

# Cases whose names of operations differ on purpose: case -> reason.
OTHER_OPS = {
    "optimizers.FtrlOptimizer": "its sums start from constants, as in TensorFlow 1.15",
    **{f"tf.layers.{name}": "an inner scope less" for name in ("average_pooling1d", "max_pooling1d")},
    "tf.layers.separable_conv1d": "the bias is added last",
    "metrics:recall_at_precision_strict": "there is no conditional on the way",
    "metrics:streaming_false_positives_at_thresholds": "the value is a read of the variable",
    "metrics:f1_score": "value and update are called so, as those of other metrics are",
    "metrics:streaming_mean_iou": "the value is called mean_iou",
    "metrics:streaming_concat": "see OTHER_VARIABLES",
    "metrics:equal_thresholds": "fewer operations on the way",
    "losses:mean_pairwise_squared_error": "fewer operations on the way to it",
    "losses:mean_pairwise_squared_error_weights": "the same",
    "layers.batch_norm_rows": "rows are not reshaped to images",
    "layers.batch_norm_weights": "the updates come before the output, not before what it is made of",
    "layers.batch_norm_debias": "the same",
    "normalized_in_scopes": "losses of regularizers are named after the variables, not after layers inside",
    "layers.group_norm": "the inputs are not reshaped when their groups are split by a constant there",
    "layers.group_norm_axes": "the same",
    "layers.pool": "a window that is spread is one op here",
    "layers.rev_block": "nothing is recomputed, so nothing is wrapped",
}
# Cases whose local variables, which no checkpoint holds, differ on purpose: case -> reason.
OTHER_VARIABLES = {
    "metrics:streaming_concat": "one variable that grows holds all values, and knows how many there are",
    "metrics:streaming_sparse_average_precision_at_k": "TensorFlow gives the name `max` to an operation first",
    "metrics:tf.average_precision_at_k": "the same",
    "metrics:tf.average_precision_of_sparse": "the same",
}


class Layers:
    """`tf.contrib.slim`, and `tf.contrib.layers` for what is not there: `tf_slim` has both."""

    def __getattr__(self, name: str) -> Any:
        return getattr(tf.contrib.slim if hasattr(tf.contrib.slim, name) else tf.contrib.layers, name)


class Nets:
    """`tf.contrib.slim.nets` with its argument scopes."""

    arg_scope = staticmethod(tf.contrib.slim.arg_scope)

    def __getattr__(self, name: str) -> Any:
        return getattr(tf.contrib.slim.nets, name)


LIBRARIES = {
    "layers": Layers(),
    "nets": Nets(),
    "names": Nets(),
    "metrics": tf.contrib.metrics,
    "losses": tf.contrib.losses,
}


def compare(found: Any, wanted: Any, where: str) -> None:
    """Values as `written` gives them, to a tolerance."""
    if isinstance(wanted, list) and len(wanted) == 2 and isinstance(wanted[1], list):
        assert list(found[1]) == list(wanted[1]), where
        scale = max([abs(item) for item in wanted[0]] or [1])
        np.testing.assert_allclose(found[0], wanted[0], rtol=2e-4, atol=2e-5 * max(scale, 1e-3), err_msg=where)
    else:
        assert found == wanted, where


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_case(name: str) -> None:
    wanted = GOLDEN[name]
    found = library.record(name, tf, LIBRARIES)
    assert found["variables"] == wanted["variables"]
    if name.startswith("names:"):
        # What dropout's last op is called changed between TensorFlow's versions.
        pairs = zip(found["tensors"], wanted["tensors"], strict=True)
        assert all(own == other or "ropout" in other[0] for own, other in pairs)
        return
    if name not in OTHER_VARIABLES:
        assert found["collections"] == wanted["collections"]
    assert found["sizes"] == wanted["sizes"]
    assert found.get("tags") == wanted.get("tags")
    assert len(found["values"][0]) == len(wanted["values"][0])
    for number, (own, others) in enumerate(zip(found["values"], wanted["values"], strict=True)):
        for index, (value, other) in enumerate(zip(own, others, strict=True)):
            compare(value, other, f"run {number}, tensor {index}")
    if name not in OTHER_VARIABLES:
        assert sorted(found["after"]) == sorted(wanted["after"])
        for variable, value in wanted["after"].items():
            compare(found["after"][variable], value, variable)
    if name not in OTHER_OPS:
        # A loop is one operation here: its results are `rnn/while:1` and so on, not `rnn/while/Exit_1`.
        pairs = zip(found["ops"], wanted["ops"], strict=True)
        assert [own for own, other in pairs if own != other and not ("/while" in own and "/Exit" in other)] == []


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(
    ("module", "net", "scope", "size"),
    [
        ("alexnet", "alexnet_v2", "alexnet_v2_arg_scope", 224),
        ("overfeat", "overfeat", "overfeat_arg_scope", 231),
        ("vgg", "vgg_a", "vgg_arg_scope", 224),
    ],
)
def test_a_layer_s_own_padding_goes_before_that_of_the_argument_scope(
    module: str, net: str, scope: str, size: int, is_training: bool
) -> None:
    nets = getattr(tf.contrib.slim.nets, module)
    with tf.Graph().as_default(), tf.contrib.slim.arg_scope(getattr(nets, scope)()):
        images = tf.placeholder(tf.float32, [2, size, size, 3])
        logits, ends = getattr(nets, net)(images, 7, is_training=is_training)
        first = next(shape for name, shape in ends.items() if "conv1" in name).shape
        assert logits.shape == [2, 7]
    # 11x11 windows at strides of 4 that reach over no edge, and 3x3 windows that do.
    assert first == {"alexnet": [2, 54, 54, 64], "overfeat": [2, 56, 56, 64], "vgg": [2, 224, 224, 64]}[module]
