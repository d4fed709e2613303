"""`anabranch where` leads from public names and op types to the lines that define them, and `inspect` does so, too."""

from __future__ import annotations

import inspect
import json
import linecache
from pathlib import Path
from typing import Any

import pytest

import anabranch as tf
from anabranch import _public
from anabranch.cli import definitions
from anabranch.cli.main import main
from anabranch.core.contract import api, opdef
from anabranch.ragged import dispatch as ragged

ROOT = Path(__file__).parents[2]
_public.load_everything()


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints; it must succeed."""
    with pytest.raises(SystemExit, match=r"\A0\Z"):
        main(["where", *arguments])
    return capsys.readouterr().out


def documents(capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    return json.loads(answer(capsys, name, "--json"))[name]


def text_at(place: dict[str, Any]) -> str:
    """The line that a place names."""
    return linecache.getline(str(ROOT / place["file"]), place["line"]).strip()


def test_public_function(capsys: pytest.CaptureFixture[str]) -> None:
    function, op = documents(capsys, "tf.image.resize_bilinear")
    assert (function["kind"], function["op_types"]) == ("function", ["ResizeBilinear"])
    assert function["file"] == "anabranch/ops/image/public_geometry.py"
    assert text_at(op) == "class ResizeBilinear(Op):"
    assert text_at(op["kernel"]).startswith("def kernel(")
    assert text_at(op["gradient"]).startswith("def gradient(")
    assert op["test_row"]["file"].startswith("tests/ops/")


def test_op_types(capsys: pytest.CaptureFixture[str]) -> None:
    (conv,) = documents(capsys, "Conv2D")
    assert text_at(conv) == "class Conv2D(Op):"
    assert text_at(conv["gradient"]).startswith("def gradient(")
    assert "tf.nn.conv2d" in conv["public_names"]
    (derived,) = documents(capsys, "AnabranchVjp")
    assert text_at(derived) == "class AnabranchVjp(Op):"
    assert derived["gradient"] == {"text": "derived from the kernel", "file": None, "line": None}


def test_rows_of_tables(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = documents(capsys, "LessEqual")
    assert '"LessEqual"' in text_at(row)
    (joined,) = documents(capsys, "UnsortedSegmentMax")
    assert text_at(joined).startswith('("Max",')
    (helped,) = documents(capsys, "Floor")
    assert text_at(helped).startswith('_unary("Floor"')


def test_methods_classes_values_and_namespaces(capsys: pytest.CaptureFixture[str]) -> None:
    (method,) = documents(capsys, "tf.train.Saver.save")
    assert (method["kind"], text_at(method)[:9]) == ("method", "def save(")
    (cls,) = documents(capsys, "tf.train.Saver")
    assert (cls["kind"], text_at(cls)[:11]) == ("class", "class Saver")
    (layer,) = [item for item in documents(capsys, "tf.contrib.layers.batch_norm") if item["kind"] == "function"]
    assert layer["file"].startswith("anabranch/contrib/layers/")
    (value,) = documents(capsys, "tf.float32")
    assert "float32" in text_at(value)
    shown = answer(capsys, "tf.nn")
    assert "namespace" in shown
    assert "anabranch/ops/nn/activations.py" in shown


def test_the_last_part_of_a_name_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    names = {item["name"] for item in documents(capsys, "dropout")}
    assert {"tf.nn.dropout", "tf.layers.dropout"} <= names


def test_text_has_one_line_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    lines = answer(capsys, "tf.nn.relu", "MatMul").splitlines()
    assert lines[0].split()[:2] == ["tf.nn.relu", "function"]
    assert lines[1].split()[:3] == ["Relu", "op", "type"]
    assert any(line.split()[0] == "gradient" for line in lines[2:] if line)


@pytest.mark.parametrize(
    ("name", "near"),
    [("tf.nn.conv3", "tf.nn.conv2d"), ("conv2dd", "Conv2D"), ("tf.train.AdmOptimizer", "tf.train.AdamOptimizer")],
)
def test_unknown_names(capsys: pytest.CaptureFixture[str], name: str, near: str) -> None:
    with pytest.raises(SystemExit, match=r"\A2\Z"):
        main(["where", name])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"anabranch: Given: {name!r}\nExpected: the name of an op type")
    assert near in printed.err


def test_a_method_that_is_not_there_is_unknown() -> None:
    with pytest.raises(ValueError, match=r"Given: 'tf\.train\.Saver\.savve'"):
        definitions.find("tf.train.Saver.savve")
    with pytest.raises(ValueError, match=r"Given: 'tf\.float32\.nothing'"):
        definitions.find("tf.float32.nothing")


def test_every_op_type_has_a_place_in_the_package() -> None:
    wrong = [
        name
        for name in opdef.all_definitions()
        if (place := definitions.op_type(name, with_public_names=False).place) is not None
        and place.relative().startswith("anabranch/")
        and not linecache.getline(place.file, place.line).strip()
    ]
    assert not wrong
    blocks = [item for item in opdef.all_definitions().values() if item.block and item.module.startswith("anabranch.")]
    assert len(blocks) > 300
    for item in blocks:
        place = definitions.op_type(item.type_name, with_public_names=False).place
        assert place is not None
        assert linecache.getline(place.file, place.line).startswith(f"class {item.block.__name__}("), item


# -------------------------------------------------------------------------------------------------------------- inspect
def test_inspect_leads_to_the_row_of_a_public_op() -> None:
    for name, function in api.names().items():
        if hasattr(function, "op_type"):
            own = function
            if function.__code__.co_filename == ragged.__file__:  # it names the one for dense tensors
                own = function.__wrapped__
            file = inspect.getsourcefile(own)
            assert file is not None
            assert Path(file).is_relative_to(ROOT / "anabranch" / "ops"), name
            line = linecache.getline(file, own.__code__.co_firstlineno)
            assert "public_op(" in line, name


def test_inspect_shows_the_block_or_the_kernel() -> None:
    assert inspect.getsource(tf.nn.relu).startswith("class Relu(Op):")
    assert inspect.getsource(opdef.lookup("Relu").block).startswith("class Relu(Op):")
    assert "def " in inspect.getsource(tf.bitwise.bitwise_and)
    assert list(inspect.signature(tf.nn.relu).parameters) == ["features", "name"]
    assert inspect.getfullargspec(tf.nn.relu).args == ["features", "name"]


def test_a_definition_knows_the_class_statement_of_a_user() -> None:
    class Doubled(tf.Op):
        """Twice `x`."""

        signature = "x: T -> y: T"
        attrs = {"T": opdef.Type("float")}
        effect = opdef.PURE
        gradient = opdef.NotDifferentiable("it is a test")

        def shape(c):
            return c.shapes[0]

        def kernel(ctx, inputs, attrs):
            return inputs[0] * 2

    definition = opdef.lookup("Doubled")
    assert definition.module == __name__
    assert definition.block is Doubled
    assert linecache.getline(__file__, definition.line).strip() == "class Doubled(tf.Op):"
    place = definitions.op_type("Doubled").place
    assert place is None or place == (__file__, definition.line)


def test_an_error_in_a_call_names_the_row() -> None:
    with pytest.raises(TypeError, match=r"relu\(\) takes at most 2 arguments") as caught:
        tf.nn.relu(1.0, 2, 3)
    assert any(str(entry.path).endswith("activations.py") and entry.name == "relu" for entry in caught.traceback)
