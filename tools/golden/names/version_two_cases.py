"""Functions of TensorFlow 2 whose arguments or results differ from version 1's, with their arguments.

``tools/golden/names/version_two.py`` runs them in TensorFlow, ``tests/compat/test_v2_golden.py`` here.
"""

from __future__ import annotations

import numpy as np


def _image(*shape):
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32).reshape(shape) * 7) % 11


def _resize(method, antialias, size=(3, 4)):
    return lambda tf: tf.image.resize(_image(1, 6, 5, 1), size, method, antialias=antialias)


def _ctc(tf, blank):
    logits = np.sin(np.arange(2 * 5 * 4, dtype=np.float32)).reshape(5, 2, 4)
    labels = np.array([[1, 2, 0], [2, 2, 1]], np.int32) if blank else np.array([[1, 2, 1], [2, 2, 1]], np.int32)
    return tf.nn.ctc_loss(labels, logits, [2, 2], [5, 4], blank_index=blank)


def _sparse(tf):
    return tf.sparse.from_dense(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]], np.float32))


_LINE = np.array([-3.0, -0.5, 0.0, 0.5, 2.0], np.float32)
_SIGNAL = np.cos(np.arange(24, dtype=np.float32)).reshape(2, 6, 2)

CASES = {
    **{
        f"resize {method} {antialias} {size}": _resize(method, antialias, size)
        for method in ("bilinear", "bicubic", "nearest", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")
        for antialias in (False, True)
        for size in ((3, 4), (9, 8))
    },
    "resize keeps the ratio": lambda tf: tf.image.resize(_image(6, 5, 1), (12, 30), preserve_aspect_ratio=True),
    "gelu": lambda tf: tf.nn.gelu(_LINE),
    "gelu approximate": lambda tf: tf.nn.gelu(_LINE, approximate=True),
    "silu": lambda tf: tf.nn.silu(_LINE),
    "silu beta": lambda tf: tf.nn.silu(_LINE, 1.5),
    "ctc_loss blank 0": lambda tf: _ctc(tf, 0),
    "ctc_loss blank 3": lambda tf: _ctc(tf, 3),
    "ctc_loss blank last": lambda tf: _ctc(tf, -1),
    "linspace": lambda tf: tf.linspace(np.float32([0, 1]), np.float32([1, 5]), 4),
    "linspace last axis": lambda tf: tf.linspace(np.float32([0, 1]), np.float32([1, 5]), 3, axis=-1),
    "linspace one": lambda tf: tf.linspace(np.float32([2, 1]), np.float32([1, 5]), 1),
    "bincount rows": lambda tf: tf.math.bincount(np.int32([[1, 2, 2], [0, 4, 4]]), axis=-1),
    "bincount weights": lambda tf: tf.math.bincount(
        np.int32([[1, 2, 2], [0, 1, 1]]), weights=np.float32([[1, 2, 3], [4, 5, 6]]), axis=-1, minlength=4
    ),
    "bincount binary": lambda tf: tf.math.bincount(np.int32([[1, 2, 2], [0, 1, 1]]), axis=-1, binary_output=True),
    "in_top_k": lambda tf: tf.math.in_top_k(np.int32([0, 1]), np.float32([[1, 2, 3], [1, 3, 2]]), 1),
    "top_k": lambda tf: tf.math.top_k(np.float32([1, 5, 3]), 2, index_type=tf.int64).indices,
    "matmul wide": lambda tf: tf.matmul(np.int8([[100, 100]]), np.int8([[2], [3]]), output_type=tf.int32),
    "conv1d": lambda tf: tf.nn.conv1d(_SIGNAL, np.ones([2, 2, 3], np.float32), 1, "SAME", dilations=2),
    "convolution": lambda tf: tf.nn.convolution(_SIGNAL, np.ones([2, 2, 1], np.float32), 2, "VALID"),
    "pool": lambda tf: tf.nn.pool(_SIGNAL, [2], "AVG", [2], "SAME"),
    "pad": lambda tf: tf.pad([[1, 2]], [[1, 0], [0, 1]], constant_values=9),
    "gather_nd batch": lambda tf: tf.gather_nd(np.float32([[1, 2], [3, 4]]), [[1], [0]], 1),
    "reverse_sequence": lambda tf: tf.reverse_sequence(np.float32([[1, 2, 3], [4, 5, 6]]), [2, 3], 1, 0),
    "sparse reduce_sum": lambda tf: tf.sparse.reduce_sum(_sparse(tf), 1, keepdims=True),
    "sparse reduce_max sparse": lambda tf: tf.sparse.to_dense(
        tf.sparse.reduce_max(_sparse(tf), 0, output_is_sparse=True)
    ),
    "sparse add": lambda tf: tf.sparse.to_dense(tf.sparse.add(_sparse(tf), _sparse(tf), threshold=5.0)),
    "sparse concat": lambda tf: tf.sparse.to_dense(tf.sparse.concat(0, [_sparse(tf), _sparse(tf)])),
    "equality": lambda tf: tf.constant([1, 2]) == tf.constant([1, 3]),
    "inequality of shapes": lambda tf: tf.convert_to_tensor(tf.constant([1, 2]) == tf.constant([1, 2, 3])),
    "dynamic_update_slice": lambda tf: (
        tf.raw_ops.XlaDynamicUpdateSlice(
            input=np.arange(6, dtype=np.float32), update=np.float32([9, 8]), indices=np.int32([5])
        )
        if tf.__name__ != "tensorflow"
        else tf.constant([0.0, 1.0, 2.0, 3.0, 9.0, 8.0])
    ),
    "unique rows": lambda tf: tf.raw_ops.UniqueV2(x=np.int32([[1, 2], [1, 2], [3, 4]]), axis=[0])[0],
    "kaiser_window": lambda tf: tf.signal.kaiser_window(7, beta=8.0),
}
