"""``slim.dataset`` and ``slim.data``: what a data set consists of, and how its records are found."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors


class Dataset:
    """Where a data set is and how its records are read: every keyword argument becomes an attribute, too.

    Args:
        data_sources: files, or patterns of them.
        reader: class of the reader of records.
        decoder: makes tensors of a record (``slim.tfexample_decoder.TFExampleDecoder``).
        num_samples: number of records.
        items_to_descriptions: dictionary from names of items to texts.
    """

    def __init__(
        self,
        data_sources: Any,
        reader: Any,
        decoder: Any,
        num_samples: int,
        items_to_descriptions: dict[str, str],
        **kwargs: Any,
    ) -> None:
        kwargs.update(
            data_sources=data_sources,
            reader=reader,
            decoder=decoder,
            num_samples=num_samples,
            items_to_descriptions=items_to_descriptions,
        )
        self.__dict__.update(kwargs)


def get_data_files(data_sources: Any) -> list[str]:
    """The files that a pattern, a file name, or a list of them stands for.

    Raises:
        ValueError: there is none.
    """
    if isinstance(data_sources, (list, tuple)):
        files = [name for source in data_sources for name in get_data_files(source)]
    elif any(sign in data_sources for sign in "*?["):
        files = tf.gfile.Glob(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise ValueError(
            f"No data files found in {data_sources}\n"
            + errors.message(f"{data_sources!r}", "a pattern that files match", "tf.gfile.Glob to see what does")
        )
    return files
