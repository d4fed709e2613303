"""``tensorflow.python.tools.inspect_checkpoint``: what a checkpoint holds, printed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import anabranch as tf


def print_tensors_in_checkpoint_file(
    file_name: str,
    tensor_name: str | None,
    all_tensors: bool,
    all_tensor_names: bool = False,
    count_exclude_pattern: str = "",
) -> None:
    """Print names, shapes and values of a checkpoint's tensors.

    Args:
        file_name: prefix of the checkpoint.
        tensor_name: the tensor to print; all names and shapes if it is empty.
        all_tensors: print the values of all tensors.
        all_tensor_names: print the names of all tensors.
        count_exclude_pattern: a regular expression; names that match it do not count in the total.
    """
    reader = tf.train.NewCheckpointReader(file_name)
    shapes: dict[str, Any] = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    if all_tensors or all_tensor_names:
        for name in sorted(shapes):
            print("tensor_name: ", name)
            if all_tensors:
                print(reader.get_tensor(name))
    elif not tensor_name:
        for name in sorted(shapes):
            print(f"{name} ({dtypes[name].name}) {shapes[name]}")
    else:
        print("tensor_name: ", tensor_name)
        print(reader.get_tensor(tensor_name))
    excluded = re.compile(count_exclude_pattern) if count_exclude_pattern else None
    counted = [shape for name, shape in shapes.items() if excluded is None or not excluded.match(name)]
    print("# Total number of params:", sum(int(np.prod(shape)) for shape in counted))
