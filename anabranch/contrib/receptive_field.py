"""``tf.contrib.receptive_field``: which part of an image an output of a convolutional network sees.

Policy. Nodes of a GraphDef are followed from the output back to the input. Convolutions, pools and paddings change the
size, the stride and the padding of what is seen; operations on single elements, batch and response normalization, sums
with biases and concatenations do not, and any other one is refused. Axes are kept as TensorFlow gives them out: x,
then y. Unlike there, dilations of a convolution count, and channels may be the first axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api, opdef
from anabranch.core.contract.api import public

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_POOLS = ("MaxPool", "MaxPoolV2", "AvgPool")
_UNCHANGED = ("BiasAdd", "ConcatV2", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "LRN")


class NodeInfo(NamedTuple):
    """A node's place in the order of computation, and the heights and widths of what it reads and gives."""

    order: int
    node: Any
    input_size: Any
    output_size: Any


class _Layer(NamedTuple):
    """What a layer does along one axis; paddings are None where they depend on a size that is not known."""

    kernel: int
    stride: int
    padding: int | None
    total: int | None


_POINTWISE = _Layer(1, 1, 0, 0)


def _inputs(node: Any) -> list[str]:
    return [name.split(":")[0] for name in node.input if not name.startswith("^")]


def _constant(node: Any, place: int, nodes: dict[str, Any]) -> np.ndarray:
    source = nodes[_inputs(node)[place]]
    if source.op != "Const":
        raise ValueError(
            errors.message(f"input {place} of {node.name!r} ({node.op}), from {source.op}", "a constant", "tf.constant")
        )
    return tf.make_ndarray(source.attr["value"].tensor)


def _kernel_sizes(node: Any, nodes: dict[str, Any]) -> list[int]:
    """Height and width of a convolution's kernel, which is a variable or a constant."""
    source = nodes[_inputs(node)[1]]
    while "shape" not in source.attr and source.op != "Const" and _inputs(source):
        source = nodes[_inputs(source)[0]]
    if source.op == "Const":
        return [dim.size for dim in source.attr["value"].tensor.tensor_shape.dim[:2]]
    sizes = [dim.size for dim in source.attr["shape"].shape.dim[:2]]
    if len(sizes) < 2:
        raise ValueError(
            errors.message(f"the weights of {node.name!r}, from {source.op}", "a variable with a shape", "tf.Variable")
        )
    return sizes


def _padded(node: Any, kernel: int, stride: int, size: int | None) -> _Layer:
    way = node.attr["padding"].s
    if way == b"VALID":
        return _Layer(kernel, stride, 0, 0)
    if way != b"SAME":
        raise ValueError(
            f"Invalid padding operation {way!r}\n"
            + errors.message(f"padding {way!r} of {node.name!r}", "'SAME' or 'VALID'", "a Pad and 'VALID'")
        )
    if size is not None:
        total = max(kernel - (stride if size % stride == 0 else size % stride), 0)
        return _Layer(kernel, stride, total // 2, total)
    if kernel == 1:
        return _Layer(kernel, stride, 0, 0)
    if stride == 1:
        return _Layer(kernel, stride, (kernel - 1) // 2, kernel - 1)
    return _Layer(kernel, stride, (kernel - 1) // 2 if stride == 2 and kernel % 2 == 0 else None, None)


def _leaves(node: Any) -> bool:
    if node.op in _UNCHANGED:
        return True
    definition = opdef.find(node.op)
    return definition is not None and (definition.elementwise or definition.only_passes or not definition.inputs)


def _layers(node: Any, nodes: dict[str, Any], sizes: Any) -> tuple[_Layer, _Layer] | None:
    """What a node does along x and y; None if that is not known."""
    if node.op in _CONVOLUTIONS or node.op in _POOLS:
        y, x = (2, 3) if node.attr["data_format"].s == b"NCHW" else (1, 2)
        strides = list(node.attr["strides"].list.i)
        if node.op in _CONVOLUTIONS:
            dilations = list(node.attr["dilations"].list.i) or [1] * 4
            height, width = _kernel_sizes(node, nodes)
            kernels = ((width - 1) * dilations[x] + 1, (height - 1) * dilations[y] + 1)
        else:
            windows = list(node.attr["ksize"].list.i)
            if not windows:
                windows, strides = (_constant(node, place, nodes).tolist() for place in (1, 2))
            if any(size != 1 for place, size in enumerate(windows) if place not in (x, y)):
                raise ValueError(
                    errors.message(
                        f"windows {windows} of {node.name!r}", "1 over the batch and channels", "[1, 2, 2, 1]"
                    )
                )
            kernels = windows[x], windows[y]
        known = (None, None) if sizes is None else (sizes[1], sizes[0])
        across, down = (
            _padded(node, kernel, stride, size)
            for kernel, stride, size in zip(kernels, (strides[x], strides[y]), known, strict=True)
        )
        return across, down
    if node.op == "Pad":
        paddings = _constant(node, 1, nodes)
        if paddings[[0, 3]].any():
            raise ValueError(
                errors.message(f"paddings of the batch or of channels in {node.name!r}", "of axes 1 and 2", "0 there")
            )
        (top, bottom), (left, right) = paddings[1].tolist(), paddings[2].tolist()
        return _Layer(1, 1, left, left + right), _Layer(1, 1, top, top + bottom)
    return (_POINTWISE, _POINTWISE) if _leaves(node) else None


def _size_behind(size: int | None, layer: _Layer) -> int | None:
    if size is None or layer.total is None:
        return None
    return math.ceil((size + layer.total - layer.kernel + 1) / layer.stride)


@public("contrib.receptive_field.get_compute_order")
def get_compute_order(
    graph_def: Any, input_node_name: str = "", input_node_size: Sequence[int] | None = None
) -> tuple[dict[str, NodeInfo], dict[str, Any]]:
    """In which order the nodes of a network are computed, and how large their images are.

    Args:
        graph_def: a GraphDef.
        input_node_name: the node that is the image.
        input_node_size: its height and width, from which those of the others follow.

    Returns:
        For each node's name its order (0 for one without inputs, else one more than the highest of its inputs), the
        node, and the ``[height, width]`` that it reads and gives, None where not known; and the nodes by their names.
    """
    nodes = {node.name: node for node in graph_def.node}
    found: dict[str, NodeInfo] = {}
    for name in _in_order(nodes, input_node_name):
        node = nodes[name]
        if name == input_node_name:
            found[name] = NodeInfo(0, node, None, input_node_size)
            continue
        parents = [found[parent] for parent in _inputs(node)]
        size = parents[0].output_size if parents else None
        behind = None
        if size is not None:
            layers = _layers(node, nodes, size)
            behind = (
                [None, None] if layers is None else [_size_behind(size[0], layers[1]), _size_behind(size[1], layers[0])]
            )
        found[name] = NodeInfo(max((parent.order + 1 for parent in parents), default=0), node, size, behind)
    return found, nodes


def _in_order(nodes: dict[str, Any], first: str) -> Iterator[str]:
    """Names of nodes, each behind its inputs; nothing is followed back from the one called ``first``."""
    done: set[str] = set()
    for start in nodes:
        stack = [start]
        while stack:
            name = stack[-1]
            missing = (
                [] if name in done or name == first else [each for each in _inputs(nodes[name]) if each not in done]
            )
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if name not in done:
                done.add(name)
                yield name


@public("contrib.receptive_field.ReceptiveField")
class ReceptiveField:
    """The part of an image that one place of a feature map sees; unpacks to ``size_x, size_y, stride_x, ...``.

    Attributes:
        size: width and height of the part.
        stride: distances between the parts of neighbouring places.
        padding: how far the part of the first place reaches over the image's left and upper edge.
    """

    def __init__(self, size: Any, stride: Any, padding: Any) -> None:
        self.size, self.stride, self.padding = np.asarray(size), np.asarray(stride), np.asarray(padding)

    def _axes(self, given: Any, axis: Any, name: str) -> tuple[np.ndarray, list[int]]:
        axes, places = list(range(self.size.size) if axis is None else axis), np.asarray(given)
        if places.shape[-1] != len(axes):
            raise ValueError(
                f"Dimensionality of the coordinates `{name}` ({places.shape[-1]}) does not match that of `axis`\n"
                + errors.message(f"{name} of shape {places.shape}", f"[..., {len(axes)}]", f"{name}[:, :{len(axes)}]")
            )
        return places, axes

    def compute_input_center_coordinates(self, y: Any, axis: Sequence[int] | None = None) -> Any:
        """Centers ``[..., d]`` in the image of what places ``[..., d]`` of the feature map see.

        Args:
            y: places, one coordinate for each of the axes.
            axis: which axes; all if None.
        """
        places, axes = self._axes(y, axis, "y")
        return -self.padding[axes] + places * self.stride[axes] + (self.size[axes] - 1) / 2

    def compute_feature_coordinates(self, x: Any, axis: Sequence[int] | None = None) -> Any:
        """Places ``[..., d]`` of the feature map whose parts have the centers ``x`` ``[..., d]``."""
        places, axes = self._axes(x, axis, "x")
        return (places + self.padding[axes] + (1 - self.size[axes]) / 2) / self.stride[axes]

    def __iter__(self) -> Iterator[Any]:
        return iter(np.concatenate([self.size, self.stride, self.padding]))


class _Seen(NamedTuple):
    """What the output sees of a node, along one axis."""

    size: int
    stride: int
    padding: int | None

    def through(self, layer: _Layer, defined: bool) -> _Seen:
        padding = None
        if defined and self.padding is not None and layer.padding is not None:
            padding = layer.stride * self.padding + layer.padding
        return _Seen(layer.stride * self.size + layer.kernel - layer.stride, layer.stride * self.stride, padding)

    def joined(self, other: _Seen, axis: str) -> _Seen:
        """The larger of two parts that are seen on different ways; ValueError if their centers move apart."""
        if self.padding is not None and other.padding is not None:
            centers = [(one.size - 1) / 2 - (one.padding or 0) for one in (self, other)]
            if self.stride != other.stride or centers[0] != centers[1]:
                what = "effective stride" if self.stride != other.stride else "center shift"
                raise ValueError(
                    f"Graph is not aligned since {what} from different paths is different in {axis} direction\n"
                    + errors.message(f"{self} and {other}", "the same stride and center on all ways", "other paddings")
                )
        return self if self.size >= other.size else other


@public("contrib.receptive_field.compute_receptive_field_from_graph_def")
def compute_receptive_field_from_graph_def(
    graph_def: Any,
    input_node: Any,
    output_node: Any,
    stop_propagation: Sequence[str] | None = None,
    input_resolution: Sequence[int] | None = None,
) -> ReceptiveField:
    """The part of the input that each place of the output sees.

    Args:
        graph_def: the network, a Graph or a GraphDef.
        input_node: the image: a tensor, or the name of a node.
        output_node: likewise the feature map.
        stop_propagation: beginnings of names; such nodes are not followed.
        input_resolution: height and width of the image. Paddings of "SAME" that depend on it are None without.

    Returns:
        Size, stride and padding along x and y.

    Raises:
        ValueError: a node on the way is none that is known, ways through the network do not meet at the same center,
            or there is no such input or output.

    Example:
        >>> with tf.Graph().as_default() as graph:
        ...     x = tf.placeholder(tf.float32, [None, 32, 32, 1], name="x")
        ...     y = tf.layers.max_pooling2d(tf.layers.conv2d(x, 4, 3), 2, 2)
        ...     field = tf.contrib.receptive_field.compute_receptive_field_from_graph_def(graph, x, y)
        >>> [int(one) for one in field]
        [4, 4, 2, 2, 0, 0]
    """
    if isinstance(graph_def, tf.Graph):
        graph_def = graph_def.as_graph_def()
    start, end = (node.op.name if isinstance(node, tf.Tensor) else node for node in (input_node, output_node))
    stops = tuple(stop_propagation or ())
    info, nodes = get_compute_order(graph_def, start, input_resolution)
    seen: dict[str, tuple[_Seen, _Seen]] = {end: (_Seen(1, 1, 0), _Seen(1, 1, 0))}
    defined = True
    for name in sorted(info, key=lambda name: -info[name].order):
        if name == start:
            break
        if name not in seen:
            continue
        node = info[name].node
        layers = _layers(node, nodes, info[name].input_size)
        if layers is None:
            raise ValueError(
                f"Unknown layer for operation '{name}': {node.op}\n"
                + errors.message(
                    f"a node {name!r} of type {node.op}", "a layer that is known", "stop_propagation=[...]"
                )
            )
        defined = defined and all(layer.padding is not None for layer in layers)
        parts = [part.through(layer, defined) for part, layer in zip(seen[name], layers, strict=True)]
        for source in node.input:
            if source.startswith((*stops, "^")):
                continue
            source = source.split(":")[0]
            if source in seen:
                across, down = seen[source]
                seen[source] = across.joined(parts[0], "horizontal"), down.joined(parts[1], "vertical")
            else:
                seen[source] = parts[0], parts[1]
    for name, what in ((end, "Output"), (start, "Input")):
        if name not in (info if what == "Output" else seen):
            raise ValueError(
                f"{what} node was not found\n"
                + errors.message(f"{what.lower()} node {name!r}", "a node between input and output", "tensor.op.name")
            )
    return ReceptiveField(*zip(*[(part.size, part.stride, part.padding) for part in seen[start]], strict=True))


__getattr__, __dir__ = api.module_attributes("contrib.receptive_field")
