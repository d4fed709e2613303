"""Print the table of ``anabranch/ops/strings/scripts.py``; run with the Python of TensorFlow 1.15."""

from __future__ import annotations

import textwrap

import numpy as np
import tensorflow as tf

tf.enable_eager_execution()
scripts = tf.strings.unicode_script(np.arange(0x110000, dtype=np.int32)).numpy()
starts = np.flatnonzero(np.diff(scripts, prepend=-2))
steps = np.diff(starts, prepend=0)
items = [f"{steps[i]:x}:{scripts[starts[i]]}" for i in range(len(starts))]
print("\n".join(textwrap.wrap(" ".join(items), 118)))
