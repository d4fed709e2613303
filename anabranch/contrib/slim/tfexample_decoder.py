"""``slim.tfexample_decoder``: items of a data set (images, boxes, labels) from the features of serialized examples.

A decoder has a parser's features by key, and a handler for each item, which makes the item of the features of its keys.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.slim.data_decoder import DataDecoder
from anabranch.core import errors


class ItemHandler(abc.ABC):
    """Make an item of the features of its keys."""

    def __init__(self, keys: Any) -> None:
        self._keys = list(keys) if isinstance(keys, (list, tuple)) else [keys]

    @property
    def keys(self) -> list[str]:
        """Keys of the features that the item is made of."""
        return self._keys

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item, of a dictionary from keys to tensors."""


class ItemHandlerCallback(ItemHandler):
    """An item that a function makes of the dictionary from keys to tensors."""

    def __init__(self, keys: Any, func: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(keys)
        self._function = func

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """What the function gives."""
        return self._function(keys_to_tensors)


def _dense(tensor: Any, default: Any) -> Any:
    return tf.sparse_tensor_to_dense(tensor, default) if isinstance(tensor, tf.SparseTensor) else tensor


class Tensor(ItemHandler):
    """A feature as a dense tensor, in a shape that is given or stands in other features.

    Args:
        tensor_key: key of the feature.
        shape_keys: keys of features that hold the shape, or its parts.
        shape: the shape.
        default_value: what stands where a sparse feature has nothing.
    """

    def __init__(
        self, tensor_key: str, shape_keys: Any = None, shape: Sequence[int] | None = None, default_value: Any = 0
    ) -> None:
        if shape_keys and shape is not None:
            raise ValueError(
                "Cannot specify both shape_keys and shape parameters.\n"
                + errors.message("shape_keys and shape", "one of the two arguments", "shape=[...]")
            )
        self._sources = (
            list(shape_keys) if isinstance(shape_keys, (list, tuple)) else [shape_keys] if shape_keys else []
        )
        self._key, self._shape, self._default = tensor_key, shape, default_value
        super().__init__([tensor_key, *self._sources])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The dense tensor."""
        tensor, shape = keys_to_tensors[self._key], self._shape
        if self._sources:
            parts = [tf.reshape(_dense(keys_to_tensors[key], 0), [-1]) for key in self._sources]
            shape = tf.cast(tf.concat(parts, 0), tf.int64)
        if isinstance(tensor, tf.SparseTensor):
            return _dense(tensor if shape is None else tf.sparse_reshape(tensor, shape), self._default)
        return tensor if shape is None else tf.reshape(tensor, shape)


class LookupTensor(Tensor):
    """A feature's values looked up in a table."""

    def __init__(
        self,
        tensor_key: str,
        table: Any,
        shape_keys: Any = None,
        shape: Sequence[int] | None = None,
        default_value: Any = "",
    ) -> None:
        super().__init__(tensor_key, shape_keys, shape, default_value)
        self._table = table

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """What the table has for the values."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """An item of one handler, or of another where the first gives an empty one."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        for each in (handler, backup):
            if not isinstance(each, ItemHandler):
                raise ValueError(
                    f"Handler is of type {type(each).__name__}, expected ItemHandler\n"
                    + errors.message(f"{each!r}", "an ItemHandler", "slim.tfexample_decoder.Tensor(key)")
                )
        self._handler, self._backup = handler, backup
        super().__init__([*handler.keys, *backup.keys])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The first handler's item, or the second's."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return tf.cond(tf.equal(tf.size(item), 0), lambda: self._backup.tensors_to_item(keys_to_tensors), lambda: item)


class SparseTensor(ItemHandler):
    """A SparseTensor of ids and their values: row by row, each id is a column.

    Args:
        indices_key: key of the ids, ``indices`` by default.
        values_key: key of the values, ``values`` by default.
        shape_key: key of the shape.
        shape: the shape, if there is no key of it; that of the ids if None.
        densify: give a dense tensor.
        default_value: what stands in it where there is nothing.
    """

    def __init__(
        self,
        indices_key: str | None = None,
        values_key: str | None = None,
        shape_key: str | None = None,
        shape: Any = None,
        densify: bool = False,
        default_value: Any = 0,
    ) -> None:
        self._ids, self._values, self._shape_key = indices_key or "indices", values_key or "values", shape_key
        self._shape, self._densify, self._default = shape, densify, default_value
        super().__init__([self._ids, self._values, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The tensor."""
        ids, values = keys_to_tensors[self._ids], keys_to_tensors[self._values]
        shape = keys_to_tensors[self._shape_key] if self._shape_key else self._shape
        if isinstance(shape, tf.SparseTensor):
            shape = shape.values
        elif shape is None:
            shape = ids.dense_shape
        rows = ids.indices[:, :-1]
        indices = tf.concat([rows, tf.reshape(tf.cast(ids.values, tf.int64), [-1, 1])], 1)
        tensor = tf.SparseTensor(indices, values.values, tf.cast(shape, tf.int64))
        return tf.sparse_tensor_to_dense(tensor, self._default) if self._densify else tensor


class Image(ItemHandler):
    """An image ``[height, width, channels]``, decoded by what its bytes say, or raw.

    Args:
        image_key: key of the bytes, ``image/encoded`` by default.
        format_key: key of the format, ``image/format`` by default; only ``raw`` (or ``RAW``) matters.
        shape: shape of the image; for raw bytes it must be given.
        channels: number of channels: 1, 3 or 4, 0 for what the file has.
        dtype: dtype of the image; decoded bytes keep their values, 0 to 255.
        repeated: the feature holds several images, of one shape.
        dct_method: must be empty.
    """

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Any = None,
        channels: int = 3,
        dtype: Any = tf.uint8,
        repeated: bool = False,
        dct_method: str = "",
    ) -> None:
        if dct_method:
            raise NotImplementedError(errors.message(f"dct_method={dct_method!r}", "''", "leave dct_method out"))
        self._image, self._format = image_key or "image/encoded", format_key or "image/format"
        self._shape, self._channels, self._dtype, self._repeated = shape, channels, tf.as_dtype(dtype), repeated
        super().__init__([self._image, self._format])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The image."""
        contents, form = keys_to_tensors[self._image], keys_to_tensors[self._format]
        if self._repeated:
            return tf.map_fn(lambda each: self._decode(each, form), contents, dtype=self._dtype)
        return self._decode(contents, form)

    def _decode(self, contents: Any, form: Any) -> Any:
        def encoded() -> Any:
            image = tf.cast(tf.image.decode_image(contents, channels=self._channels), self._dtype)
            return image if self._shape is None else tf.reshape(image, [-1])

        def raw() -> Any:
            values = tf.decode_raw(tf.reshape(contents, []), out_type=self._dtype)
            return values if self._shape is not None else tf.reshape(values, [1, 1, -1])

        contents, form = tf.reshape(contents, []), tf.reshape(form, [])
        is_raw = tf.logical_or(tf.equal(form, "raw"), tf.equal(form, "RAW"))
        image = tf.cond(is_raw, raw, encoded)
        if self._shape is not None:
            return tf.reshape(image, self._shape)
        image.set_shape([None, None, self._channels or None])
        return image


class BoundingBox(ItemHandler):
    """Boxes ``[number, 4]`` of four features with one side each.

    Args:
        keys: names of the sides: ``ymin``, ``xmin``, ``ymax``, ``xmax`` by default.
        prefix: what comes before them in keys.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        keys = ["ymin", "xmin", "ymax", "xmax"] if keys is None else keys
        if len(keys) != 4:
            raise ValueError(
                f"BoundingBox expects 4 keys but got {len(keys)}\n"
                + errors.message(f"keys={list(keys)}", "four names", "keys=['ymin', 'xmin', 'ymax', 'xmax']")
            )
        super().__init__([prefix + key for key in keys])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The boxes."""
        sides = [keys_to_tensors[key] for key in self._keys]
        columns = [side.values if isinstance(side, tf.SparseTensor) else side for side in sides]
        return tf.stack([tf.reshape(column, [-1]) for column in columns], 1)


class BoundingBoxSequence(ItemHandler):
    """Boxes of a sequence, ``[time, number, 4]``, of four sparse features with one side each.

    Args:
        keys: names of the sides: ``ymin``, ``xmin``, ``ymax``, ``xmax`` by default.
        prefix: what comes before them in keys, ``bbox/`` by default.
        return_dense: must be True.
        default_value: the sides of boxes that are not there.
    """

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        prefix: str | None = None,
        return_dense: bool = True,
        default_value: float = -1.0,
    ) -> None:
        if not return_dense:
            raise NotImplementedError(errors.message("return_dense=False", "True", "the features themselves"))
        prefix = "bbox/" if prefix is None else prefix
        super().__init__([prefix + key for key in (keys or ["ymin", "xmin", "ymax", "xmax"])])
        self._default = default_value

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The boxes."""
        return tf.stack([_dense(keys_to_tensors[key], self._default) for key in self._keys], -1)


class _Decoder(DataDecoder):
    """What both decoders share: items by handler."""

    def __init__(self, items_to_handlers: dict[str, ItemHandler]) -> None:
        self._handlers = items_to_handlers

    def list_items(self) -> list[str]:
        """Names of the items."""
        return list(self._handlers)

    def _items(self, features: dict[str, Any], items: Sequence[str] | None) -> list[Any]:
        made = []
        for item in self._handlers if items is None else items:
            handler = self._handlers[item]
            made.append(handler.tensors_to_item({key: features[key] for key in handler.keys}))
        return made


def _shaped(tensors: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
    """Parsed features; dense ones have their shape."""
    for key, feature in features.items():
        if isinstance(feature, tf.FixedLenFeature):
            tensors[key] = tf.reshape(tensors[key], feature.shape)
    return tensors


class TFExampleDecoder(_Decoder):
    """Items of serialized ``tf.train.Example`` messages.

    Args:
        keys_to_features: features as ``tf.parse_single_example`` takes them.
        items_to_handlers: a handler for each item.
    """

    def __init__(self, keys_to_features: dict[str, Any], items_to_handlers: dict[str, ItemHandler]) -> None:
        super().__init__(items_to_handlers)
        self._features = keys_to_features

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """The items (all by default) of one serialized message."""
        parsed = tf.parse_single_example(serialized_example, self._features)
        return self._items(_shaped(parsed, self._features), items)


class TFSequenceExampleDecoder(_Decoder):
    """Items of serialized ``tf.train.SequenceExample`` messages.

    Args:
        keys_to_context_features: features of the whole.
        keys_to_sequence_features: features of each step.
        items_to_handlers: a handler for each item.
    """

    def __init__(
        self,
        keys_to_context_features: dict[str, Any],
        keys_to_sequence_features: dict[str, Any],
        items_to_handlers: dict[str, ItemHandler],
    ) -> None:
        if set(keys_to_context_features) & set(keys_to_sequence_features):
            both = sorted(set(keys_to_context_features) & set(keys_to_sequence_features))
            raise ValueError(
                "Context and sequence feature keys must be disjoint.\n"
                + errors.message(
                    f"{both} in two dictionaries",
                    "each key in one dictionary",
                    "another key in one of the dictionaries",
                )
            )
        super().__init__(items_to_handlers)
        self._context, self._sequence = keys_to_context_features, keys_to_sequence_features

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """The items (all by default) of one serialized message."""
        context, sequence = tf.parse_single_sequence_example(serialized_example, self._context, self._sequence)
        return self._items({**_shaped(context, self._context), **sequence}, items)
