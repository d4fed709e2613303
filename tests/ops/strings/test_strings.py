"""Strings: TensorFlow's results for each op; shapes; what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.ops.strings import hashes
from anabranch.testing.kernels import run_op

CASES = json.loads((Path(__file__).parents[2] / "golden" / "strings.json").read_text())
# Which op types the cases run; `test_each_op_has_a_case` holds the list against what the graphs contain.
OPS = {
    "StringLower", "StringUpper", "StringStrip", "StringLength", "Substr", "StringToNumber", "EncodeBase64",
    "DecodeBase64", "StringJoin", "ReduceJoin", "StringSplit", "StringSplitV2", "StaticRegexReplace",
    "StaticRegexFullMatch", "AsString",
}  # fmt: skip

TEXTS = {
    "strings.substr": "out of range for string at index 0",
    "strings.reduce_join": "Duplicate reduction dimension 1",
    "strings.to_number": "StringToNumberOp could not correctly convert string",
    "io.decode_base64": "Invalid character found in base64|Base64 string length cannot be 1 modulo 4",
    "strings.regex_replace": r"Invalid pattern: \(, error",
}


def encoded(value):
    if isinstance(value, list):
        return [encoded(item) for item in value]
    return value.encode("latin-1") if isinstance(value, str) else value


def shown(value):
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        return np.vectorize(lambda item: item.decode("latin-1"), otypes=[object])(array).tolist()
    return array.tolist()


def called(case):
    function = tf
    for part in case["function"].split("."):
        function = getattr(function, part)
    return function(*[encoded(arg) for arg in case["args"]], **case["kwargs"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['function']}-{CASES.index(case)}")
def test_as_tensorflow(case) -> None:
    wanted = case["result"]
    with tf.Graph().as_default(), tf.Session() as session:
        if isinstance(wanted, dict) and "error" in wanted:
            with pytest.raises((tf.errors.OpError, ValueError), match=TEXTS[case["function"]]):
                session.run(called(case))
            return
        result = called(case)
        value = session.run(result)
        if isinstance(result, tf.SparseTensor):
            assert {
                "indices": shown(value.indices),
                "values": shown(value.values),
                "shape": shown(value.dense_shape),
            } == wanted
        else:
            assert result.shape.is_compatible_with(np.shape(value))
            assert shown(value) == wanted


def test_each_op_has_a_case() -> None:
    found = set()
    for case in CASES:
        with tf.Graph().as_default() as graph:
            if not (isinstance(case["result"], dict) and "error" in case["result"]):
                called(case)
                found |= {op.type for op in graph.get_operations()} & OPS
    assert found == OPS


def test_patterns_from_tensors() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        pattern = tf.placeholder(tf.string, [])
        replaced = tf.strings.regex_replace(["abc"], pattern, "-")
        matched = tf.strings.regex_full_match(["abc", "b"], pattern)
        assert (replaced.op.type, matched.op.type) == ("RegexReplace", "RegexFullMatch")
        assert session.run([replaced, matched], {pattern: "b"})[0].tolist() == [b"a-c"]
        assert session.run(matched, {pattern: "b"}).tolist() == [False, True]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Invalid pattern: \[, error"):
            session.run(replaced, {pattern: "["})
        assert session.run(replaced, {pattern: r"\p{Greek}|a"}).tolist() == [b"-bc"]


TEXT = "baaac Ab_1\u00e9\nAB k\u212aa.b{,2}\t\v]-b"
# As TensorFlow answers: the text with what matches in <>, and whether all of "ab" matches.
PATTERNS = [
    (r"a*", "<>b<aaa>c<> <>A<>b<>_<>1<>é<>\n<>A<>B<> <>k<>K<a>.<>b<>{<>,<>2<>}<>\t<>\x0b<>]<>-<>b<>", False),
    (r"|b", "<>b<>a<>a<>a<>c<> <>A<>b<>_<>1<>é<>\n<>A<>B<> <>k<>K<>a<>.<>b<>{<>,<>2<>}<>\t<>\x0b<>]<>-<>b<>", False),
    (r"b$", "baaac Ab_1é\nAB kKa.b{,2}\t\x0b]-<b>", False),
    (r"(?m)b$", "baaac Ab_1é\nAB kKa.b{,2}\t\x0b]-<b>", False),
    (r"^*a", "b<a><a><a>c Ab_1é\nAB kK<a>.b{,2}\t\x0b]-b", False),
    (r"\A?b", "<b>aaac A<b>_1é\nAB kKa.<b>{,2}\t\x0b]-<b>", False),
    (r"\z", "baaac Ab_1é\nAB kKa.b{,2}\t\x0b]-b<>", False),
    (r"\s", "baaac< >Ab_1é<\n>AB< >kKa.b{,2}<\t>\x0b]-b", False),
    (r"\w+", "<baaac> <Ab_1>é\n<AB> <k>K<a>.<b>{,<2>}\t\x0b]-<b>", True),
    ("(?i)\xc9", "baaac Ab_1<é>\nAB kKa.b{,2}\t\x0b]-b", False),
    (r"(?i:k)", "baaac Ab_1é\nAB <k><K>a.b{,2}\t\x0b]-b", False),
    (r"a(?i)b|C", "baaa<c> Ab_1é\nAB kKa.b{,2}\t\x0b]-b", True),
    (r"(?-i)a", "b<a><a><a>c Ab_1é\nAB kK<a>.b{,2}\t\x0b]-b", False),
    (r"\pL", "<b><a><a><a><c> <A><b>_1<é>\n<A><B> <k><K><a>.<b>{,2}\t\x0b]-<b>", False),
    (r"\p{Lu}+", "baaac <A>b_1é\n<AB> k<K>a.b{,2}\t\x0b]-b", False),
    (r"\P{L}", "baaac< >Ab<_><1>é<\n>AB< >kKa<.>b<{><,><2><}><\t><\x0b><]><->b", False),
    (r"[^\pN]", "<b><a><a><a><c>< ><A><b><_>1<é><\n><A><B>< ><k><K><a><.><b><{><,>2<}><\t><\x0b><]><-><b>", False),
    (r"[[:^alpha:]]+", "baaac< >Ab<_1é\n>AB< >k<K>a<.>b<{,2}\t\x0b]->b", False),
    (r"[\d_]", "baaac Ab<_><1>é\nAB kKa.b{,<2>}\t\x0b]-b", False),
    (r"\Qa.b\E", "baaac Ab_1é\nAB kK<a.b>{,2}\t\x0b]-b", False),
    (r"\x{e9}|\x41", "baaac <A>b_1<é>\n<A>B kKa.b{,2}\t\x0b]-b", False),
    (r"\07", "baaac Ab_1é\nAB kKa.b{,2}\t\x0b]-b", False),
    (r"{,2}", "baaac Ab_1é\nAB kKa.b<{,2}>\t\x0b]-b", False),
    (r"a{2}", "b<aa>ac Ab_1é\nAB kKa.b{,2}\t\x0b]-b", False),
    (r"(?P<n>b)a", "<ba>aac Ab_1é\nAB kKa.b{,2}\t\x0b]-b", False),
    (r"[]a]+", "b<aaa>c Ab_1é\nAB kK<a>.b{,2}\t\x0b<]>-b", False),
    (r"[a-]", "b<a><a><a>c Ab_1é\nAB kK<a>.b{,2}\t\x0b]<->b", False),
    (r"\.", "baaac Ab_1é\nAB kKa<.>b{,2}\t\x0b]-b", False),
    (r"\ ", "baaac< >Ab_1é\nAB< >kKa.b{,2}\t\x0b]-b", False),
    (r"\bb\b", "baaac Ab_1é\nAB kKa.<b>{,2}\t\x0b]-<b>", False),
    (r"(?s).", "<b><a><a><a><c>< ><A><b><_><1><é><\n><A><B>< ><k><K><a><.><b><{><,><2><}><\t><\x0b><]><-><b>", False),
    (r".", "<b><a><a><a><c>< ><A><b><_><1><é>\n<A><B>< ><k><K><a><.><b><{><,><2><}><\t><\x0b><]><-><b>", False),
]
REFUSED = [
    r"\1", "(?=a)", "(?<=a)", "(?>a)", "a++", "a**", r"\Z", r"\u0041", "(?#x)", "b{0,1001}", "*a", "[b-a]", "[[:foo:]]",
    "(", "a)", "[", r"\e",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "replaced", "matched"), PATTERNS)
def test_what_patterns_mean(pattern, replaced, matched) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.strings.regex_replace([TEXT], pattern, r"<\0>"), tf.strings.regex_full_match(["ab"], pattern)
        one, other = session.run(found)
    assert one[0].decode() == replaced
    assert other.tolist() == [matched]


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_are_refused(pattern) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern: "):
            session.run(tf.strings.regex_replace(["a"], pattern, ""))


@pytest.mark.parametrize(
    ("pattern", "replaced"),
    [
        ("(?U)a+", b"b<a><a><a>c"),
        ("^(a+)+$", b"baaac"),
        (r"\pL*", b"<baaac>"),
    ],
)
def test_patterns_of_re2_alone(pattern, replaced) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.strings.regex_replace(["baaac"], pattern, r"<\0>")).tolist() == [replaced]


def test_no_pattern_takes_longer_than_in_proportion_to_the_text() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        text = tf.placeholder(tf.string, [1])
        replaced = tf.strings.regex_replace(text, "^(a+)+$", "x"), tf.strings.regex_full_match(text, "(a|a)*(b|a?)*c")
        assert session.run(replaced, {text: ["a" * 100_000 + "!"]})[1].tolist() == [False]


def test_a_number_with_a_letter_behind_many_digits_is_refused_at_once() -> None:
    text = b"1" * 100_000 + b"x"
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert string"):
            session.run(tf.string_to_number([text]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not a valid float"):
            session.run(tf.decode_csv([text], [[1.0]]))
        found = session.run(tf.decode_csv([b"0x1p99999,-0x1p99999,0x1p-1"], [[1.0]] * 3))
    assert np.concatenate(found).tolist() == [np.inf, -np.inf, 0.5]


def test_bytes_that_are_not_utf_8_stay() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        text = [b"\xff\xe9a\xc3\xa9\xc3"]
        assert session.run(tf.strings.regex_replace(text, "a", "b")).tolist() == [b"\xff\xe9b\xc3\xa9\xc3"]
        assert session.run(tf.strings.regex_replace(text, "x*", "-"))[0].replace(b"-", b"") == text[0]


def test_static_shapes() -> None:
    with tf.Graph().as_default():
        words = tf.placeholder(tf.string, [None, 3])
        assert tf.reduce_join(words, 1).shape.as_list() == [None]
        assert tf.reduce_join(words, 0, keep_dims=True).shape.as_list() == [1, 3]
        assert tf.string_join([words, "x"]).shape.as_list() == [None, 3]
        assert tf.substr(words, [0, 1, 0], [1, 1, 1]).shape.as_list() == [None, 3]
        assert tf.reduce_join(tf.placeholder(tf.string)).shape.ndims is None
        assert tf.string_split(tf.placeholder(tf.string, [4])).dense_shape.shape.as_list() == [2]


def test_rank_is_not_known() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.placeholder(tf.string)
        joined = tf.reduce_join(words)
        assert session.run(joined, {words: [["a", "b"], ["c", "d"]]}) == b"abcd"


def test_what_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match="Cannot specify both 'axis' and 'reduction_indices'"):
            tf.reduce_join(["a"], 0, reduction_indices=0)
        with pytest.raises(ValueError, match="Unsupported encoding 'latin'"):
            tf.strings.lower(["a"], encoding="latin")
        with pytest.raises(ValueError, match="result_type='Ragged'"):
            tf.strings.split(["a"], result_type="Ragged")
        with pytest.raises(ValueError, match="Cannot specify both 'sep' and 'delimiter'"):
            tf.string_split(["a"], " ", delimiter=" ")
        shape = tf.placeholder(tf.string)
        joined = build("StringJoin", [shape, tf.constant(["a", "b"])])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Input shapes do not match"):
            session.run(joined, {shape: ["a", "b", "c"]})


@pytest.mark.parametrize("most", [3, 7, 20, 70, 200])
@pytest.mark.parametrize("count", [1, 24, 25, 700])
def test_hashes_of_many_strings_are_those_of_each(most, count):
    random = np.random.RandomState(most + count)
    texts = [random.bytes(random.randint(0, most + 1)) for _ in range(count - 1)] + [bytes(most)]
    key = (int(random.randint(1 << 62)), -5)
    value = np.empty((count, 1), object)
    value[:, 0] = texts
    fed = tf.placeholder(tf.string, [None, 1])
    with tf.Session() as session:
        fast, strong, old = session.run(
            [
                tf.string_to_hash_bucket_fast(fed, 2**63 - 1),
                tf.string_to_hash_bucket_strong(fed, 10**9 + 7, list(key)),
                tf.string_to_hash_bucket(fed, 1000),
            ],
            {fed: value},
        )
    assert fast.shape == strong.shape == old.shape == (count, 1)
    assert fast.ravel().tolist() == [hashes.fingerprint64(text) % (2**63 - 1) for text in texts]
    assert strong.ravel().tolist() == [hashes.siphash(key, text) % (10**9 + 7) for text in texts]
    assert old.ravel().tolist() == [hashes.hash64(text) % 1000 for text in texts]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (np.int32([[1, 2], [3, 4]]), [[76, 18, 253, 133, 168, 204, 240, 10], [254, 162, 60, 240, 103, 244, 53, 255]]),
        (["ab", "c"], [[30, 165, 173, 66, 82, 110, 141, 170], [40, 123, 203, 224, 169, 24, 161, 158]]),
        ([["ab"], ["c"]], [[30, 165, 173, 66, 82, 110, 141, 170], [40, 123, 203, 224, 169, 24, 161, 158]]),
        ([[["ab", "c"], ["d", ""]]], [[89, 94, 57, 39, 198, 210, 184, 31]]),
        (np.zeros((2, 0), np.float32), [[79, 64, 144, 47, 59, 106, 225, 154]] * 2),
        (np.array([True, False]), [[62, 88, 126, 177, 19, 76, 162, 71], [84, 75, 233, 245, 237, 86, 96, 190]]),
        (np.zeros((0, 3), np.float32), np.zeros((0, 8)).tolist()),
    ],
)
def test_fingerprints_are_those_of_tensorflow(data, wanted):
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.fingerprint(tf.constant(data))
        assert made.shape.as_list() == [len(wanted), 8]
        found = session.run(made)
    assert found.dtype == np.uint8
    assert found.tolist() == wanted


def test_fingerprints_that_are_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Shape must be at least rank 1 but is rank 0"):
            tf.fingerprint(1.0)
        with pytest.raises(ValueError, match="Unsupported method: x"):
            tf.fingerprint([1.0], method="x")


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("BYTE", [b"llo\0\0", b"d", b"", b"\xc3\xa9"]),
        ("UTF8_CHAR", [b"llo\0\0", b"d", b"", b"\xc3\xa9t"]),
    ],
)
def test_parts_of_strings_from_either_end_and_of_nothing(unit, wanted):
    texts = np.array([b"hello\0\0", b"\xc3\xa9tude", b"", b"\xc3\xa9t"], object)
    starts, lengths = np.array([2, -2, 0, 0]), np.array([2**62, 1, 5, 2])
    assert run_op("Substr", texts, starts, lengths, unit=unit).tolist() == wanted
    assert run_op("Substr", texts, np.int64(0), np.int64(-3), unit=unit).tolist() == [b""] * 4
    with pytest.raises(tf.errors.InvalidArgumentError, match="pos 3 out of range for string at index 2"):
        run_op("Substr", texts, np.array([3, 3, 3, 0]), lengths, unit=unit)
