"""Record what TensorFlow's summaries hold, and which nodes its functions for them make.

Run with an interpreter that has TensorFlow: `python tools/golden/training/summaries.py tests/golden/summaries.json`.
A case is a program that uses `tf`, `np`, the default graph `g`, and these:
`show(tensor)`: the summary that running a string tensor gives, as a dictionary, PNGs as their pixels;
`error(f)`: the name of the class of what `f()` raises;
`raw(type, **arguments)`: an op by its type;
`out`, to which it appends.
The tests run the same programs.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HISTOGRAMS = {
    "nothing": "np.zeros([0], np.float32)",
    "zero": "np.float32(0)",
    "both signs": "np.linspace(-3, 5, 50).reshape(5, 10)",
    "many": "np.random.RandomState(0).randn(5000).astype(np.float32)",
    "tiny and huge": "np.array([1e-300, -1e-300, 1e-12, 1.1e-12, -1e-12, 1e20, -1e20, 1e300, 1.7e308, 5e-13])",
    "limits": "np.array([1e-12 * 1.1 ** n for n in range(-2, 774, 7)] * 30)",
    "own limits": "np.array(limits + [-x for x in limits])",
    "integers": "np.arange(-100, 3000, dtype=np.int64) % 77",
    "bytes": "np.arange(256, dtype=np.uint8)",
    "halves": "np.linspace(-2, 2, 33).astype(np.float16)",
}
IMAGES = {
    "bytes": "np.random.RandomState(1).randint(0, 256, [2, 5, 7, 3]).astype(np.uint8)",
    "positive": "np.random.RandomState(2).rand(4, 3, 5, 1).astype(np.float32)",
    "signed": "np.random.RandomState(3).randn(1, 4, 4, 4).astype(np.float32)",
    "double": "np.random.RandomState(4).randn(9, 6, 3, 3)",
    "half": "(np.random.RandomState(5).rand(2, 6, 3, 1) * 7).astype(np.float16)",
    "half signed": "(np.random.RandomState(6).randn(2, 6, 3, 3) * 7).astype(np.float16)",
    "little": "np.full([1, 2, 2, 1], 5e-7, np.float32)",
    "bad": "np.array([[[[1, 2, 3], [np.nan, 5, 6]], [[7, np.inf, 9], [0, 0, -np.inf]]]], np.float32)",
    "all bad": "np.full([1, 2, 2, 1], np.nan, np.float32)",
    "none": "np.zeros([0, 3, 3, 1], np.float32)",
}
CASES = {
    **{
        f"histogram of {name}": "limits = [1e-12]\nwhile limits[-1] < 1e20:\n    limits.append(limits[-1] * 1.1)\n"
        f"out.append(show(tf.summary.histogram('h', tf.constant({values}))))"
        for name, values in HISTOGRAMS.items()
    },
    **{
        f"image of {name}": f"out.append(show(tf.summary.image('i', tf.constant({values}), 9)))"
        for name, values in IMAGES.items()
    },
    "scalars": """
for value in (1, 2.5, np.float64(1e-3), np.int64(7), np.uint8(200), np.float16(0.1)):
    out.append(show(tf.summary.scalar("loss", value)))
out.append(error(lambda: g_run(tf.summary.scalar("one", [3.0]))))
out.append(error(lambda: g_run(tf.summary.scalar("two", [3.0, 4.0]))))
out.append(show(raw("ScalarSummary", tags=["a", "b"], values=[1.0, 2.0])))
""",
    "images wanted": """
x = np.zeros([4, 1, 2, 1], np.uint8)
for n in (1, 2, 9):
    out.append(show(tf.summary.image("i", x, max_outputs=n)))
""",
    "audio": """
wave = np.array([[0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 1e-5, 1.5 / 32768, -1.5 / 32768, 0.1]], np.float32)
out.append(show(tf.summary.audio("a", wave, 44100.0)))
out.append(show(tf.summary.audio("a", np.stack([wave, wave * 0.3], -1)[[0, 0, 0, 0]], 8000.0, max_outputs=2)))
out.append(show(tf.summary.audio("a", wave, 22050.5, max_outputs=1)))
out.append(error(lambda: g_run(tf.summary.audio("a", wave, 0.0))))
""",
    "tensors": """
metadata = tf.SummaryMetadata(plugin_data=tf.SummaryMetadata.PluginData(plugin_name="mine", content=b"x"))
out.append(show(tf.summary.tensor_summary("t", [[1.0, 2.0]], "what", summary_metadata=metadata, display_name="T")))
out.append(show(tf.summary.tensor_summary("t", np.int64(3))))
out.append(show(tf.summary.tensor_summary("t", ["a", "bc"], family="f")))
out.append(show(tf.summary.tensor_summary("t", [True, False])))
out.append(show(tf.summary.text("text", tf.constant("*hello*"))))
out.append(show(raw("TensorSummary", tensor=[1.5, 2.5], description="d", labels=["l"], display_name="D", name="n")))
out.append(error(lambda: tf.summary.text("text", tf.constant(1.0))))
""",
    "tags": """
with tf.name_scope("outer"):
    out.append(show(tf.summary.scalar("a b?c", 1.0)))
    out.append(show(tf.summary.scalar("a b?c", 1.0)))
    out.append(show(tf.summary.scalar("x", 1.0, family="fam")))
    out.append(show(tf.summary.histogram("x", [1.0], family="fam")))
    out.append(show(tf.summary.image("x", np.zeros([1, 1, 1, 1]), family="fam")))
    out.append(show(tf.summary.audio("x", np.zeros([1, 1], np.float32), 1.0, family="fam")))
""",
    "merging": """
a = tf.summary.scalar("a", 1.0)
with tf.name_scope("s"):
    b = tf.summary.histogram("b", [1.0], collections=["mine", "summaries"])
c = tf.summary.scalar("c", 3.0, collections=["mine"])
out.append(tf.summary.merge_all().name)
out.append(show(tf.summary.merge_all()))
out.append(show(tf.summary.merge_all("mine")))
out.append(show(tf.summary.merge_all(scope="s/")))
out.append(tf.summary.merge([a, c], collections=["merged"], name="m n").name)
out.append(len(tf.get_collection("merged")))
out.append(error(lambda: g_run(tf.summary.merge([a, a]))))
out.append(tf.summary.merge_all("nothing"))
""",
}


def pixels(data, tf):
    """The bytes of a PNG's pixels."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.image.decode_png(data)).ravel().tolist()


def shown(data, summary_type, decode):
    """A serialised summary as a dictionary."""
    from google.protobuf import json_format

    summary = summary_type.FromString(data)
    found = json_format.MessageToDict(summary, preserving_proto_field_name=True)
    for value, entry in zip(summary.value, found.get("value", []), strict=True):
        if value.HasField("image"):
            entry["image"]["encoded_image_string"] = decode(value.image.encoded_image_string)
    return found


def run_case(tf, np, program, decode, raw):
    """What a program appends to `out`, and the nodes that it makes."""
    out = []
    graph = tf.Graph()

    def g_run(tensor):
        with tf.Session(graph=graph) as session:
            return session.run(tensor)

    def error(function):
        try:
            return function()
        except Exception as problem:
            return type(problem).__name__

    with graph.as_default():
        exec(program, {
            "tf": tf, "np": np, "g": graph, "out": out, "error": error, "g_run": g_run, "raw": raw,
            "show": lambda tensor: shown(g_run(tensor), tf.Summary, decode),
        })  # fmt: skip
    nodes = [[op.name, op.type, [item.name for item in op.inputs]] for op in graph.get_operations()]
    return {"out": out, "nodes": nodes}


def main():
    """Runs all cases and writes the file."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)

    def raw(op, **arguments):
        return getattr(tf.raw_ops, op)(**arguments)

    found = {name: run_case(tf, np, program, lambda data: pixels(data, tf), raw) for name, program in CASES.items()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(found, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
