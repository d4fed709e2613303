"""Record checkpoints that TensorFlow writes, and the nodes of its savers.

Run with an interpreter that has TensorFlow: `python tools/golden/graphs/checkpoints.py tests/golden/checkpoints`. There
are then checkpoints of every kind with the same tensors (`tensors()`), one by object, and `savers.json`: for each
program of `SAVERS`, the nodes that a saver adds and its SaverDef. The tests run the same programs and read the same
files.
"""

import json
import os
import sys

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

NUMBERS = [
    *("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("int64", "uint64", "complex64", "complex128", "bool"),
]
# What the format V1 holds.
OLD = [name for name in NUMBERS if name not in ("uint32", "uint64", "bfloat16", "float16")]


def tensors(names=NUMBERS):
    """Names to arrays: every dtype, strings, a scalar, an empty tensor, names with odd characters."""
    import ml_dtypes

    found = {}
    for position, name in enumerate(names):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        values = np.arange(6).reshape(2, 3) * 3 - (0 if name.startswith("u") else 7)
        values = values % 2 if name == "bool" else values
        if dtype.kind == "c":
            values = values * (1 + 2j)
        found[f"scope_{position}/{name}"] = values.astype(dtype)
    found["scalar"] = np.array(-2.5, np.float32)
    found["empty"] = np.zeros([3, 0, 2], np.int32)
    texts = np.empty((2, 2), object)
    texts[:] = [[b"", b"a"], ["é".encode(), b"\0\xff" * 100]]
    found["strings"] = texts
    found["no_strings"] = np.empty((0,), object)
    found["odd é name:0/\\"] = np.arange(3)
    return found


def parts():
    """A tensor, and its slices as specifications: rows in three parts, and a grid."""
    whole = (np.arange(200 * 70) % 251).astype(np.uint8).reshape(200, 70)
    return whole, {
        "rows": ["200 70 0,67:0,70", "200 70 67,67:-", "200 70 134,66:-"],
        "grid": ["200 70 0,150:0,64", "200 70 150,50:0,64", "200 70 0,200:64,6"],
    }


MODEL = """
p = tf.get_variable("p", [5, 2], partitioner=tf.fixed_size_partitioner(2), use_resource=resource) if parted else None
with tf.device("/cpu:0" if devices else None):
    w = tf.get_variable("w", [2], use_resource=resource)
with tf.device("/cpu:1" if devices else None):
    x = tf.get_variable("x", [], dtype=tf.int32, initializer=tf.zeros_initializer(), use_resource=resource)
"""
# Name of the case: arguments of MODEL, call of the saver.
SAVERS = {
    "plain": ("", "tf.train.Saver()"),
    "resources": ("resource", "tf.train.Saver()"),
    "partitioned": ("parted", "tf.train.Saver()"),
    "sharded": ("", "tf.train.Saver(sharded=True)"),
    "sharded on devices": ("parted devices", "tf.train.Saver(sharded=True, max_to_keep=2)"),
    "sequential": ("", "tf.train.Saver(restore_sequentially=True)"),
    "reshape": ("", "tf.train.Saver(reshape=True)"),
    "old format": ("", "tf.train.Saver(write_version=tf.train.SaverDef.V1)"),
    "old format, sharded": ("devices", "tf.train.Saver(write_version=tf.train.SaverDef.V1, sharded=True)"),
    "named": ("", "tf.train.Saver(name='other', keep_checkpoint_every_n_hours=2)"),
    "file name": ("", "tf.train.Saver(filename='place/model')"),
    "dictionary": ("resource", "tf.train.Saver({'second': w, 'first/one': x}, max_to_keep=None)"),
    "parts by name": ("parted", "tf.train.Saver({'q': p, 'w': w})"),
    "parts by list": ("parted", "tf.train.Saver(list(p))"),
}
# One variable would be saved twice, or is none; the error's class is recorded.
REFUSED = {
    "twice": "tf.train.Saver({'a': w, 'b': w})",
    "same name": "tf.train.Saver([w, w])",
    "no variable": "tf.train.Saver([tf.constant(1)])",
    "no list": "tf.train.Saver(5)",
    "deferred with variables": "tf.train.Saver([w], defer_build=True)",
    "number in a dictionary": "tf.train.Saver({1: w})",
}


def saver_nodes(tf, arguments, call):
    """The nodes that a saver adds, and its SaverDef as text."""
    graph = tf.Graph()
    with graph.as_default():
        names = {"tf": tf, **{key: key in arguments.split() for key in ("resource", "parted", "devices")}}
        exec(MODEL, names)
        before = len(graph.get_operations())
        saver = eval(call, names)
        nodes = [
            [
                op.name,
                op.type,
                [tensor.name for tensor in op.inputs],
                sorted(control.name for control in op.control_inputs),
                op.device,
                sorted(item.decode() if isinstance(item, bytes) else item for item in op.colocation_groups())
                if op.type != "Const"
                else [],
                [str(dtype.name) for dtype in op.get_attr("dtypes")] if "dtypes" in op.node_def.attr else [],
                _constant(tf, op),
            ]
            for op in graph.get_operations()[before:]
        ]
        return {"nodes": nodes, "saver_def": str(saver.as_saver_def())}


def _constant(tf, op):
    if op.type != "Const":
        return None
    value = np.asarray(tf.get_static_value(op.outputs[0])).tolist()
    texts = value if isinstance(value, list) else [value]
    texts = [item.decode() if isinstance(item, bytes) else item for item in texts]
    return texts if isinstance(value, list) else texts[0]


def refusal(tf, call):
    """The class of the error that a call raises."""
    with tf.Graph().as_default():
        names = {"tf": tf, "resource": False, "parted": False, "devices": False}
        exec(MODEL, names)
        try:
            eval(call, names)
        except Exception as problem:
            return type(problem).__name__
    return ""


def object_model(tf, prefix):
    """Variables, an optimizer, lists and dicts of them in a checkpoint by object; `prefix` begins variables' names."""
    w = tf.get_variable(f"{prefix}w", [2], initializer=tf.ones_initializer())
    b = tf.get_variable(f"{prefix}b", [], use_resource=True, initializer=tf.zeros_initializer())
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(tf.square(w)) + tf.square(b - 1))
    nested = tf.train.Checkpoint(b=b)
    checkpoint = tf.train.Checkpoint(w=w, nested=nested, optimizer=optimizer, items=[w, b], d={"x.y/z": b})
    return checkpoint, train, [w, b, optimizer.get_slot(w, "m"), optimizer.get_slot(b, "v"), checkpoint.save_counter]


def main(folder):
    """Write the files."""
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    tf.disable_resource_variables()
    os.makedirs(folder, exist_ok=True)

    def save(kind, name, values, slices=None):
        with tf.Graph().as_default(), tf.Session() as session:
            given = [tf.constant(value) for value in values.values()]
            names = list(values) if slices is None else ["whole"] * len(slices)
            specs = [""] * len(given) if slices is None else slices
            path = os.path.join(folder, name)
            if kind == "V2":
                session.run(tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=specs, tensors=given))
            else:
                session.run(
                    tf.raw_ops.SaveSlices(filename=path, tensor_names=names, shapes_and_slices=specs, data=given)
                )

    save("V2", "v2", tensors())
    save("V1", "v1", tensors(OLD))
    whole, layouts = parts()
    small = whole[:20, :7]
    for name, specs in layouts.items():
        sliced = {str(i): cut(whole, spec) for i, spec in enumerate(specs)}
        if name == "grid":
            save("V2", "v2_grid", sliced, specs)
    two = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf.Session(config=two) as session:
        for position, device in enumerate(("/cpu:0", "/cpu:1")):
            with tf.device(device):
                tf.get_variable(f"on_{position}", initializer=small + position)
        parted = tf.get_variable(
            "cut", [20, 7], tf.uint8, tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(3)
        )
        session.run(tf.global_variables_initializer())
        session.run(parted.assign(small))
        tf.train.Saver(sharded=True).save(
            session, os.path.join(folder, "v2_sharded"), write_meta_graph=False, write_state=False
        )
        tf.train.Saver(sharded=True, write_version=tf.train.SaverDef.V1).save(
            session, os.path.join(folder, "v1_sharded"), write_meta_graph=False, write_state=False
        )
    with tf.Graph().as_default(), tf.Session() as session:
        checkpoint, train, shown = object_model(tf, "theirs_")
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(os.path.join(folder, "objects"), session=session)
        values = [np.asarray(value).tolist() for value in session.run(shown)]
    os.remove(os.path.join(folder, "checkpoint"))
    record = {
        "savers": {name: saver_nodes(tf, *case) for name, case in SAVERS.items()},
        "refused": {name: refusal(tf, call) for name, call in REFUSED.items()},
        "objects": {"path": os.path.basename(path), "values": values},
    }
    with open(os.path.join(folder, "savers.json"), "w") as stream:
        json.dump(record, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def cut(whole, spec):
    """The part of an array that a specification names."""
    box = []
    for size, piece in zip(whole.shape, spec.split(" ")[-1].split(":"), strict=True):
        start, length = (0, size) if piece == "-" else map(int, piece.split(","))
        box.append(slice(start, start + length))
    return whole[tuple(box)]


if __name__ == "__main__":
    main(sys.argv[1])
