"""Hyperparameters by text, JSON and dictionary; balancing of parameter servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as tf
from anabranch.contrib import training
from anabranch.contrib.training import HParams


def made() -> HParams:
    return HParams(rate=0.1, units=10, layers=[1, 2, 3], name="net", fast=False)


def test_text_overrides_by_type() -> None:
    hparams = made().parse("rate=2, units=3,layers=[4,5],name=other-net,fast=TRUE")
    assert hparams.values() == {"rate": 2.0, "units": 3, "layers": [4, 5], "name": "other-net", "fast": True}
    assert isinstance(hparams.rate, float)
    assert hparams.parse("layers[1]=7,layers[0]=6").layers == [6, 7]
    assert hparams.parse("").units == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("units=1.5", "Could not parse hparam 'units' of type 'int' with value '1.5'"),
        ("fast=maybe", "Could not parse hparam 'fast'"),
        ("other=1", "Unknown hyperparameter type for other"),
        ("units=1,units=2", "Multiple assignments to variable 'units'"),
        ("layers[0]=1,layers[0]=2", "Multiple assignments to variable 'layers[0]'"),
        ("layers=3", "Must pass a list for multi-valued parameter: layers"),
        ("units=[3]", "Must not pass a list for single-valued parameter: units"),
        ("layers[9]=3", "an index below 3"),
        ("units", "Malformed hyperparameter value: units"),
        ("layers[0]=[1]", "Assignment of a list to a list index"),
    ],
)
def test_text_that_does_not_fit(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("[", r"\[")):
        made().parse(text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.lists(st.integers(), min_size=1, max_size=4))
def test_text_gives_the_values_back(rate: float, layers: list[int]) -> None:
    hparams = made().parse(f"rate={rate!r},layers=[{','.join(map(str, layers))}]")
    assert (hparams.rate, hparams.layers) == (rate, layers)


def test_values_keep_their_type() -> None:
    hparams = made()
    hparams.set_hparam("rate", 3)
    assert isinstance(hparams.rate, float)
    hparams.override_from_dict({"units": 7, "layers": [9]})
    assert (hparams.units, hparams.layers) == (7, [9])
    for name, value in (("units", 1.5), ("units", "1"), ("units", True), ("fast", 1), ("name", 3)):
        with pytest.raises(ValueError, match=f"Could not parse hparam '{name}'"):
            hparams.set_hparam(name, value)
    with pytest.raises(KeyError, match="no hyperparameter 'other'"):
        hparams.set_hparam("other", 1)


def test_json_and_equality() -> None:
    hparams = made()
    hparams.add_hparam("activation", len)
    again = made().parse_json(hparams.to_json(sort_keys=True))
    assert again == made()
    assert again != HParams(rate=0.1)
    assert "rate" in again
    assert repr(HParams(b=1, a=2)) == "HParams(a=2, b=1)"


def test_names_come_and_go() -> None:
    hparams = made()
    with pytest.raises(ValueError, match="name is reserved: rate"):
        hparams.add_hparam("rate", 1)
    with pytest.raises(ValueError, match="cannot be empty: empty"):
        hparams.add_hparam("empty", [])
    hparams.del_hparam("rate")
    assert "rate" not in hparams
    assert hparams.get("rate", 3) == 3
    assert hparams.get("units") == 10
    with pytest.raises(ValueError, match="incompatible with default"):
        hparams.get("units", "text")
    assert HParams(b=2.0).get("b", 3) == 2.0  # an integer is a float
    for text, problem in (
        ("a[1]=[1,2]", "Assignment of a list to a list index"),
        ("a[0]=1,a[0]=2", r"Multiple assignments to variable 'a\[0\]'"),
        ("a=[1],a[0]=2", "Multiple assignments to variable 'a'"),
    ):
        with pytest.raises(ValueError, match=problem):
            HParams(a=[1, 2]).parse(text)
    with pytest.raises(AssertionError, match="of type object\nExpected: an HParamDef"):
        HParams(hparam_def=object())
    with pytest.raises(ValueError, match="mutually exclusive"):
        HParams(hparam_def=HParams(a=1).to_proto(), b=2)
    with pytest.raises(ValueError, match="Unsupported parameter type"):
        HParams(a=None).to_proto()


def test_parameters_go_through_protos_and_graphs() -> None:
    values = {"a": 1, "b": 0.5, "c": "näme", "d": True, "e": [1, 2], "f": [0.5], "g": ["x", "y"], "h": [False, True]}
    again = HParams.from_proto(HParams(**values).to_proto())
    assert again.values() == values
    assert {name: type(value) for name, value in again.values().items()} == {k: type(v) for k, v in values.items()}
    # As TensorFlow 1.15.5 writes it.
    wire = HParams(b=0.5, e=[1, 300]).to_proto().SerializeToString(deterministic=True)
    assert wire == b'\n\n\n\x01b\x12\x05\x15\x00\x00\x00?\n\x0c\n\x01e\x12\x07"\x05\n\x03\x01\xac\x02'
    with tf.Graph().as_default():
        tf.add_to_collection("hparams", HParams(**values))
        meta = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta)
        assert tf.get_collection("hparams")[0].values() == values


def test_least_load_first() -> None:
    strategy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    with tf.Graph().as_default():
        sizes = [10, 1, 1, 20, 5]
        ops = [tf.get_variable(f"v{i}", [size], use_resource=i % 2 == 0).op for i, size in enumerate(sizes)]
        assert [strategy(op) for op in ops] == [0, 1, 1, 1, 0]
        assert training.byte_size_load_fn(ops[3]) == training.byte_size_load_fn(ops[0]) * 2 == 80
        with pytest.raises(ValueError, match="a known shape"):
            training.byte_size_load_fn(tf.placeholder(tf.float32, name="p").op)
        table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
        assert training.byte_size_load_fn(table.resource_handle.op) == 1  # as in TensorFlow: of its handle
        chosen = [training.RandomStrategy(3, seed=3)(tf.no_op(name=f"no{i}")) for i in range(12)]
    assert chosen == [1, 2, 1, 0, 0, 1, 1, 0, 2, 1, 2, 1]  # what 1.15.5 chooses
