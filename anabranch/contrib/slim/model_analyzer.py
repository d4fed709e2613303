"""``slim.model_analyzer``: how many values and bytes the variables and ops of a model have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def tensor_description(var: Any) -> str:
    """Dtype and shape of a tensor or variable: ``(float32 3x4)``."""
    sizes = "x".join("?" if size is None else str(size) for size in var.get_shape().as_list())
    return f"({var.dtype.name} {sizes})"


def _elements(shape: Any) -> int:
    return int(shape.num_elements() or 0) if shape.ndims is not None else 0


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """The number of values of all outputs of known shape in a graph; prints them by op if asked to."""
    if print_info:
        print("---------\nOperations: name -> (type shapes) [size]\n---------")
    total = 0
    for op in graph.get_operations():
        known = [output for output in op.outputs if output.get_shape().ndims is not None]
        size = sum(_elements(output.get_shape()) for output in known)
        if print_info:
            print(op.name, "\t->", ", ".join(map(tensor_description, known)), f"[{size}]")
        total += size
    return total


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
    """The number of values and of bytes of variables; prints them one by one if asked to."""
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    total = total_bytes = 0
    for var in variables:
        size = _elements(var.get_shape())
        count = size * var.dtype.size
        total, total_bytes = total + size, total_bytes + count
        if print_info:
            print(var.name, tensor_description(var), f"[{size}, bytes: {count}]")
    if print_info:
        print(f"Total size of variables: {total}\nTotal bytes of variables: {total_bytes}")
    return total, total_bytes
