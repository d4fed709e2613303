"""``slim.data_provider`` and ``slim.dataset_data_provider``: the items of a data set, read and decoded, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.contrib.slim import parallel_reader
from anabranch.core import errors


class DataProvider:
    """Tensors by the names of items, one sample in each step.

    Args:
        items_to_tensors: a tensor for each item.
        num_samples: how many samples there are.
    """

    def __init__(self, items_to_tensors: dict[str, Any], num_samples: int) -> None:
        self._tensors = items_to_tensors
        self._count = num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """The tensors of some items.

        Raises:
            ValueError: ``items`` is not a list, or there is no such item.
        """
        if not isinstance(items, (list, tuple)):
            raise ValueError(
                "items must be a list or tuple\n"
                + errors.message(f"items={items!r}", "a list of names", f"[{items!r}]")
            )
        for item in items:
            if item not in self._tensors:
                raise ValueError(
                    f"Item [{item}] is invalid.\n"
                    + errors.message(f"item {item!r}", f"one of {sorted(self._tensors)}", "provider.list_items()")
                )
        return [self._tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """Names of the items."""
        return list(self._tensors)

    def num_samples(self) -> int:
        """How many samples there are."""
        return self._count


class DatasetDataProvider(DataProvider):
    """The items of a ``slim.dataset.Dataset``, and the keys of its records, read by threads.

    Args:
        dataset: the data set.
        num_readers: how many files are read at a time.
        reader_kwargs: arguments of the data set's reader.
        shuffle: whether files and records come in random order.
        num_epochs: how often the data are read; None for no end.
        common_queue_capacity: records that wait.
        common_queue_min: records that stay in the queue while more come.
        record_key: the item that holds the key of the record.
        seed: of the orders.
        scope: name of the operations.

    Raises:
        ValueError: the data set has an item called like ``record_key``.
    """

    def __init__(
        self,
        dataset: Any,
        num_readers: int = 1,
        reader_kwargs: dict[str, Any] | None = None,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
        scope: str | None = None,
    ) -> None:
        key, record = parallel_reader.parallel_read(
            dataset.data_sources,
            dataset.reader,
            num_epochs,
            num_readers,
            reader_kwargs,
            shuffle,
            capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min,
            seed=seed,
            scope=scope,
        )
        items = list(dataset.decoder.list_items())
        if record_key in items:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}\n"
                + errors.message(f"record_key={record_key!r}", "a name that no item has", 'record_key="key"')
            )
        tensors = dataset.decoder.decode(record, items)
        super().__init__({**dict(zip(items, tensors, strict=True)), record_key: key}, dataset.num_samples)
