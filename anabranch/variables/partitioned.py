"""Variables cut into parts along one dimension, and the functions that say how to cut.

A partitioner is a function ``(shape, dtype) -> [number of parts in each dimension]``; at most one number may exceed
1. The first ``size % parts`` parts are one longer than the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.variables.variable import Variable

Partitioner = Callable[..., Sequence[int]]


class PartitionInfo:
    """Which part of a larger variable an initializer is called for.

    Args:
        full_shape: shape of the whole variable.
        var_offset: position of the part in each dimension.
    """

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        for label, value in (("full_shape", full_shape), ("var_offset", var_offset)):
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise TypeError(errors.message(f"{label} of type {type(value).__name__}", "a sequence", "pass a list"))
        if len(full_shape) != len(var_offset):
            raise ValueError(
                errors.message(
                    f"var_offset of length {len(var_offset)} for full_shape of length {len(full_shape)}",
                    "one per dimension",
                    "pass both",
                )
            )
        for offset, size in zip(var_offset, full_shape, strict=True):
            if not 0 <= offset < max(size, 1):
                raise ValueError(
                    errors.message(
                        f"offset {offset} in a dimension of size {size}", "0 <= offset < size", "check var_offset"
                    )
                )
        self._full_shape = list(full_shape)
        self._var_offset = list(var_offset)

    @property
    def full_shape(self) -> list[int]:
        """Shape of the whole variable."""
        return self._full_shape

    @property
    def var_offset(self) -> list[int]:
        """Position of the part in each dimension."""
        return self._var_offset

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """The dimension that is cut, given the part's shape; None if none is, ValueError if several are."""
        if len(shape) != len(self.full_shape):
            raise ValueError(
                errors.message(f"a shape of rank {len(shape)}", f"rank {len(self.full_shape)}", "pass the part's shape")
            )
        cut = [i for i, (part, whole) in enumerate(zip(shape, self.full_shape, strict=True)) if part != whole]
        if any(self.var_offset[i] + shape[i] > self.full_shape[i] for i in range(len(shape))):
            raise ValueError(
                errors.message(
                    f"a part of shape {list(shape)} at {self.var_offset}",
                    f"one inside {self.full_shape}",
                    "a part whose offset and sizes lie inside the whole",
                )
            )
        if len(cut) > 1:
            raise ValueError(
                errors.message(
                    f"a part cut in dimensions {cut}", "a part cut in one dimension", "use var_offset itself"
                )
            )
        return cut[0] if cut else None

    def single_offset(self, shape: Sequence[int]) -> int:
        """Position of the part in the dimension that is cut; 0 if none is."""
        dimension = self.single_slice_dim(shape)
        return 0 if dimension is None else self.var_offset[dimension]


def _check_parts(shape: Any, dtype: Any, parts: Sequence[Variable], partitions: Sequence[int]) -> None:
    """ValueError unless the parts say that they are those of a whole of this shape and dtype."""

    def refuse(usual: str, given: str, expected: str, instead: str) -> None:
        raise ValueError(f"{usual}\n" + errors.message(given, expected, instead))

    if any(count <= 0 for count in partitions):
        usual = f"partition values must be positive: {partitions}"
        refuse(usual, f"partitions={partitions}", "a count of parts for each dimension", "partitions=[2, 1]")
    if not parts:
        refuse("variable_list may not be empty", "no parts", "at least one variable", "pass the parts")
    sizes = shapes.as_shape(shape).as_list()
    for part in parts:
        if part.dtype.base != dtypes.as_dtype(dtype).base:
            usual = f"part {part.name!r} of {part.dtype.name}"
            refuse(usual, usual, f"parts of dtype {dtypes.as_dtype(dtype).name}", "use one dtype")
        place: Any = part._get_save_slice_info()
        if place is None:
            usual = f"All variables must have a save_slice_info available: {[one.name for one in parts]}"
            given = f"part {part.name!r}, which does not say where it stands in the whole"
            refuse(usual, given, "parts that know their place", "part._set_save_slice_info(...)")
        if len(sizes) != len(partitions):
            usual = f"len(shape) != len(partitions): {sizes} vs. {list(partitions)}"
            refuse(usual, f"{len(partitions)} counts", f"one for each of {len(sizes)} dimensions", "partitions=[2, 1]")
        if list(place.full_shape) != sizes:
            places: list[Any] = [one._get_save_slice_info() for one in parts]
            full = [list(one.full_shape) for one in places if one is not None]
            usual = f"All variables' full shapes must match shape: {sizes}; but full shapes were: {full}"
            refuse(usual, f"part {part.name!r} of a whole of shape {list(place.full_shape)}", f"{sizes}", "shape=...")


@public("PartitionedVariable")
class PartitionedVariable:
    """A variable made of parts; reads as the tensor of them all.

    Args:
        name: name of the whole.
        shape: its shape.
        dtype: its element type.
        variable_list: the parts, in order.
        partitions: number of parts in each dimension.
    """

    def __init__(
        self, name: str, shape: Any, dtype: Any, variable_list: Sequence[Variable], partitions: Sequence[int]
    ) -> None:
        if not isinstance(variable_list, (list, tuple)) or not all(
            isinstance(part, Variable) for part in variable_list
        ):
            raise TypeError(errors.message(f"variable_list={variable_list!r}", "a list of variables", "pass the parts"))
        if not isinstance(partitions, (list, tuple)) or not all(isinstance(count, int) for count in partitions):
            raise TypeError(errors.message(f"partitions={partitions!r}", "a list of ints", "one number per dimension"))
        _check_parts(shape, dtype, variable_list, partitions)
        self._name = name
        self._shape = shapes.as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._variable_list = sorted(variable_list, key=lambda part: part._get_save_slice_info().var_offset)
        self._partitions = list(partitions)

    @property
    def name(self) -> str:
        """Name of the whole."""
        return self._name

    @property
    def dtype(self) -> dtypes.DType:
        """Element type."""
        return self._dtype

    @property
    def shape(self) -> shapes.TensorShape:
        """Shape of the whole."""
        return self._shape

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return self._shape

    @property
    def graph(self) -> Any:
        """Graph of the parts."""
        return self._variable_list[0].graph

    @property
    def op(self) -> NoReturn:
        """Refuse: the whole has no op of its own."""
        raise ValueError(
            errors.message(
                f"op of partitioned variable {self._name!r}", "an op of a part", "list(v)[i].op, or v.as_tensor()"
            )
        )

    def _get_variable_list(self) -> list[Variable]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _partition_axes(self) -> list[int]:
        if all(count == 1 for count in self._partitions):
            return [0]
        return [axis for axis, count in enumerate(self._partitions) if count > 1]

    def _axis(self) -> int:
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(
                f"Cannot concatenate along more than one dimension: {axes}. "
                "Multi-axis partition concat is not supported\n"
                + errors.message(
                    f"{self._name!r} cut in dimensions {axes}", "one dimension", "concatenate list(v) yourself"
                )
            )
        return axes[0]

    def _concat(self) -> Tensor:
        builder = self._variable_list[0]._builder
        if len(self._variable_list) == 1:
            with builder.name_scope(None):
                return build("Identity", self._variable_list[0], name=self._name)
        with builder.name_scope(self._name + "/ConcatPartitions/"):
            whole = build("ConcatV2", self._variable_list, self._axis(), name="concat")
        with builder.name_scope(None):
            return build("Identity", whole, name=self._name)

    def as_tensor(self) -> Tensor:
        """The parts as one tensor, outside the control dependencies around the call."""
        with self._variable_list[0]._builder.control_dependencies(None):
            return self._concat()

    def _apply(self, method: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> list[Any]:
        axis = self._axis()
        parts = self._variable_list
        if isinstance(value, (list, tuple)) and len(value) == len(parts) and all(isinstance(v, Tensor) for v in value):
            values: Sequence[Any] = value
        elif isinstance(value, PartitionedVariable):
            values = list(value)
        else:
            sizes = [part.shape.as_list()[axis] for part in parts]
            whole = convert.convert_to_tensor(value, self._dtype.base)
            values = [whole]
            if len(parts) > 1:
                values = build(
                    "SplitV", whole, convert.constant(sizes, "int32"), axis, num_split=len(parts), name="split"
                )
        return [
            getattr(part, method)(item, use_locking=use_locking, name=name and f"{name}_{i}", read_value=read_value)
            for i, (part, item) in enumerate(zip(parts, values, strict=True))
        ]

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """Give the whole ``value``; a list with the result for each part."""
        return self._apply("assign", value, use_locking, name, read_value)

    def assign_add(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """Add ``value``; a list with the result for each part."""
        return self._apply("assign_add", value, use_locking, name, read_value)

    def assign_sub(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """Subtract ``value``; a list with the result for each part."""
        return self._apply("assign_sub", value, use_locking, name, read_value)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        return len(self._variable_list)

    def __repr__(self) -> str:
        description = f"of {len(self)} parts, shape={self._shape} dtype={self._dtype.name}"
        return f"<tf.PartitionedVariable {self._name!r} {description}>"


def _convert(value: PartitionedVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    if as_ref:
        raise NotImplementedError(
            errors.message(
                f"a reference to partitioned variable {value.name!r}", "one of its parts", "use v.assign, or list(v)"
            )
        )
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtypes.as_dtype(dtype).name}' for variable of type "
            f"'{value.dtype.name}'\n"
            + errors.message(f"variable {value.name!r}", dtypes.as_dtype(dtype).name, "tf.cast(v.as_tensor(), dtype)")
        )
    return value.as_tensor()


convert.register_tensor_conversion_function(PartitionedVariable, _convert)


# ------------------------------------------------------------------------------------------------------------- cutting
def partitions_of(partitioner: Partitioner, shape: shapes.TensorShape, dtype: dtypes.DType) -> list[int]:
    """What ``partitioner`` says for a variable of ``shape``, checked."""
    if not shape.is_fully_defined():
        raise ValueError(
            f"Shape of a new partitioned variable ({shape}) must be fully defined, but instead was {shape}.\n"
            + errors.message(f"shape {shape}", "a fully known shape", "give all sizes")
        )
    if not shape.ndims:
        raise ValueError(
            f"A partitioned Variable must have rank at least 1: {shape}\n"
            + errors.message(f"shape {shape}", "at least one dimension", "partitioner=None for this variable")
        )
    numbers = partitioner(shape=shape, dtype=dtype)
    if isinstance(numbers, str) or not isinstance(numbers, Sequence):
        raise ValueError(
            f"Partitioner must return a sequence, but saw: {numbers}\n"
            + errors.message(f"{numbers!r} from the partitioner", "a list with a number per dimension", "return a list")
        )
    if len(numbers) != shape.ndims:
        raise ValueError(
            f"Partitioner returned a partition list that does not match the Variable's rank: {numbers} vs. {shape}\n"
            + errors.message(
                f"{len(numbers)} numbers",
                f"{shape.ndims} numbers, one per dimension",
                "return one number per dimension",
            )
        )
    if any(count < 1 for count in numbers):
        raise ValueError(
            f"Partitioner returned zero partitions for some axes: {numbers}\n"
            + errors.message(f"{numbers}", "numbers of at least 1", "return 1 for dimensions that are not cut")
        )
    if sum(count > 1 for count in numbers) > 1:
        raise ValueError(
            f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {numbers}\n"
            + errors.message(f"partitions {list(numbers)}", "at most one number above 1", "cut one dimension only")
        )
    return list(numbers)


def slices_of(shape: Sequence[int], partitions: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Offset and shape of each part."""
    axis = next((i for i, count in enumerate(partitions) if count > 1), 0)
    count = partitions[axis]
    least, longer = divmod(shape[axis], count)
    offset = [0] * len(shape)
    for i in range(count):
        part = list(shape)
        part[axis] = least + (i < longer)
        yield list(offset), part
        offset[axis] += part[axis]


def _check_positive(name: str, value: float) -> None:
    if value < 1:
        raise ValueError(
            f"{name} must be positive, but got: {value}\n"
            + errors.message(f"{name}={value}", "a number of 1 or more", f"{name}=1")
        )


def _bytes_per_element(dtype: dtypes.DType, bytes_per_string_element: int) -> int:
    return bytes_per_string_element if dtype.base is dtypes.string else dtype.size


def known_sizes(shape: Any) -> list[int]:
    """The sizes of a TensorShape; ValueError if one is not known."""
    if not isinstance(shape, shapes.TensorShape):
        raise ValueError(
            f"shape is not a TensorShape: {shape}\n"
            + errors.message(f"{shape!r}", "a TensorShape", "tf.TensorShape(...)")
        )
    if not shape.is_fully_defined():
        raise ValueError(
            f"shape is not fully defined: {shape}\n"
            + errors.message(f"{shape}", "a fully known shape", "give all sizes")
        )
    return [int(size) for size in shape.as_list()]  # type: ignore[arg-type]


@public("variable_axis_size_partitioner")
def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """Cut ``axis`` into parts of at most ``max_shard_bytes`` bytes, if that is possible."""
    _check_positive("max_shard_bytes", max_shard_bytes)
    _check_positive("bytes_per_string_element", bytes_per_string_element)
    if max_shards is not None:
        _check_positive("max_shards", max_shards)

    def partitioner(shape: shapes.TensorShape, dtype: dtypes.DType) -> list[int]:
        sizes = known_sizes(shape)
        per_slice = math.prod(sizes) / sizes[axis] * _bytes_per_element(dtype, bytes_per_string_element)
        slices_per_shard = max(1, math.floor(max_shard_bytes / per_slice))
        shards = math.ceil(sizes[axis] / slices_per_shard)
        result = [1] * len(sizes)
        result[axis] = shards if max_shards is None else min(max_shards, shards)
        return result

    return partitioner


@public("min_max_variable_partitioner")
def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Partitioner:
    """Cut ``axis`` into at most ``max_partitions`` parts of at least ``min_slice_size`` bytes."""

    def partitioner(shape: shapes.TensorShape, dtype: dtypes.DType) -> list[int]:
        sizes = known_sizes(shape)
        if axis >= len(sizes):
            raise ValueError(
                f"Cannot partition variable along axis {axis} when shape is only {shape}\n"
                + errors.message(f"axis={axis} for shape {shape}", f"an axis below {len(sizes)}", "axis=0")
            )
        total = math.prod(sizes) * _bytes_per_element(dtype, bytes_per_string_element)
        result = [1] * len(sizes)
        result[axis] = max(1, min(sizes[axis], max_partitions, math.ceil(total / min_slice_size)))
        return result

    return partitioner


@public("fixed_size_partitioner")
def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cut ``axis`` into ``num_shards`` parts, or as many as it has elements."""

    def partitioner(shape: shapes.TensorShape, **unused: Any) -> list[int]:
        sizes = known_sizes(shapes.as_shape(shape))
        result = [1] * len(sizes)
        result[axis] = min(num_shards, sizes[axis])
        return result

    return partitioner
