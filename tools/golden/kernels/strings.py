"""Record what TensorFlow makes of strings.

Run with an interpreter that has TensorFlow: `python tools/golden/kernels/strings.py tests/golden/strings.json`. A case
is a function of `tf`, its arguments, and keyword arguments; strings are written as Latin-1 texts, one character a byte.
A result is the output, `{"indices", "values", "shape"}` of a sparse one, or `{"error": class}`.
"""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

UMLAUT = "äÖ€ x".encode().decode("latin-1")
CASES = [
    ("strings.lower", [["ABC", UMLAUT, ""]], {}),
    ("strings.lower", [["ABC", UMLAUT, ""]], {"encoding": "utf-8"}),
    ("strings.upper", [["aBc1", UMLAUT]], {"encoding": "utf-8"}),
    ("strings.strip", [[" a b\t\n", "\v\fx\r", "", "  "]], {}),
    ("strings.length", [["abc", UMLAUT, ""]], {}),
    ("strings.length", [["abc", UMLAUT, ""]], {"unit": "UTF8_CHAR"}),
    ("strings.substr", [["abcdef", "ghijkl"], 2, 3], {}),
    ("strings.substr", [["abcdef", "ghijkl"], [-3, 6], [9, 1]], {}),
    ("strings.substr", [UMLAUT, 1, 3], {"unit": "UTF8_CHAR"}),
    ("strings.substr", [["abc"], 4, 1], {}),
    ("strings.substr", [["abc"], -4, 1], {}),
    ("strings.join", [[["a", "b"], "-", ["c", "d"]]], {}),
    ("strings.join", [[["a", "b"], ["c", "d"]]], {"separator": ", "}),
    ("strings.reduce_join", [[["a", "b"], ["c", "d"]]], {}),
    ("strings.reduce_join", [[["a", "b"], ["c", "d"]], 0], {"separator": "."}),
    ("strings.reduce_join", [[["a", "b"], ["c", "d"]], [0, 1]], {}),
    ("strings.reduce_join", [[["a", "b"], ["c", "d"]], [1, 0]], {}),
    ("strings.reduce_join", [[["a", "b"], ["c", "d"]], -1], {"keep_dims": True}),
    ("strings.reduce_join", [[["a", "b"], ["c", "d"]], [1, 1]], {}),
    ("string_split", [["a b  c", "", " d "]], {}),
    ("string_split", [["a b  c", "", " d "]], {"skip_empty": False}),
    ("string_split", [["a,b;c", "xyz"]], {"delimiter": ",;"}),
    ("string_split", [["abc", "d"]], {"delimiter": ""}),
    ("strings.split", [["a b  c ", "", " d "]], {}),
    ("strings.split", [["a<>b<>c", "<>", ""]], {"sep": "<>"}),
    ("strings.split", [["a,b,c", "x"]], {"sep": ",", "maxsplit": 1}),
    ("strings.split", [["a b c ", "x y", "z"]], {"maxsplit": 2}),
    ("strings.to_number", [["1.5", " -2e3 ", "inf", ".5"]], {}),
    ("strings.to_number", [["12", "-7"]], {"out_type": "int64"}),
    ("strings.to_number", [["1_0"]], {}),
    ("strings.to_number", [["3.0"]], {"out_type": "int32"}),
    ("strings.to_number", [["2147483648"]], {"out_type": "int32"}),
    ("strings.to_number", [[""]], {}),
    ("io.encode_base64", [["", "a", "ab", "abc", "\xff\xfe\xfd"]], {}),
    ("io.encode_base64", [["", "a", "ab", "abc"]], {"pad": True}),
    ("io.decode_base64", [["YQ", "YQ==", "YWI", "__79", ""]], {}),
    ("io.decode_base64", [["Y"]], {}),
    ("io.decode_base64", [["a+b/"]], {}),
    ("strings.regex_replace", [["banana", "x"], "an", "<\\0>"], {}),
    ("strings.regex_replace", [["banana"], "(a)(n)", "\\2\\1"], {"replace_global": False}),
    ("strings.regex_replace", [["a.b\\c"], "[.\\\\]", "\\\\"], {}),
    ("strings.regex_replace", [["Ab1 _-"], "[[:alpha:]_]", "x"], {}),
    ("strings.regex_replace", [[UMLAUT], ".", "x"], {}),
    ("strings.regex_replace", [[UMLAUT], "\\w", "x"], {}),
    ("strings.regex_replace", [["a[b]c"], "[]\\[]", "!"], {}),
    ("strings.regex_replace", [["a.c abc"], "\\Qa.c\\E", "-"], {}),
    ("strings.regex_replace", [["abc"], "x*", "-"], {}),
    ("strings.regex_replace", [["a b!"], "[!\"#$%&()\\*\\+,-\\./:;<=>?@\\[\\\\\\]^_`{|}~\\']", ""], {}),
    ("strings.regex_replace", [["abc"], "(", ""], {}),
    ("strings.regex_replace", [["abc"], "b", "\\1"], {}),
    ("strings.regex_replace", [["ab\nab"], "(?m)^a", "X"], {}),
    ("strings.regex_full_match", [["abc", "abcd", "a"], "a.*c|a"], {}),
    ("strings.regex_full_match", [["abc", "ab\n"], "ab\\n?"], {}),
    ("strings.regex_full_match", [["abc"], "[[:alpha:]]+\\z"], {}),
    ("as_string", [[0.1, 12345678.0, -2.5]], {"shortest": True}),
    ("as_string", [[0.1, 1e10]], {"scientific": True, "precision": 3}),
    ("as_string", [[7, -7]], {"width": 4, "fill": "0"}),
]


def encoded(value):
    """Arguments with texts as bytes."""
    if isinstance(value, list):
        return [encoded(item) for item in value]
    return value.encode("latin-1") if isinstance(value, str) else value


def shown(value):
    """A result with bytes as Latin-1 texts."""
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        return np.vectorize(lambda item: bytes(item).decode("latin-1"), otypes=[object])(array).tolist()
    return array.tolist()


def main():
    """Writes the results of all cases."""
    found = []
    for name, args, kwargs in CASES:
        with tf.Graph().as_default(), tf.Session() as session:
            function = tf
            for part in name.split("."):
                function = getattr(function, part)
            try:
                own = dict(kwargs)
                if "out_type" in own:
                    own["out_type"] = tf.as_dtype(own["out_type"])
                value = session.run(function(*[encoded(arg) for arg in args], **own))
                if hasattr(value, "dense_shape"):
                    result = {
                        "indices": shown(value.indices),
                        "values": shown(value.values),
                        "shape": shown(value.dense_shape),
                    }
                else:
                    result = shown(value)
            except Exception as problem:
                result = {"error": type(problem).__name__}
        found.append({"function": name, "args": args, "kwargs": kwargs, "result": result})
    with open(sys.argv[1], "w") as stream:
        json.dump(found, stream, indent=0)
        stream.write("\n")


if __name__ == "__main__":
    main()
