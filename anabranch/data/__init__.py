"""``tf.data``: datasets and their iterators.

:mod:`anabranch.data.dataset` has the datasets (those of files are in :mod:`~anabranch.data.files`,
:mod:`~anabranch.data.csv_files` and :mod:`~anabranch.data.examples`), :mod:`anabranch.data.iterators` what goes through
them, :mod:`anabranch.data.structure` what elements are made of, :mod:`anabranch.data.function_bodies` how a Python
function becomes one that a stage calls. What runs stands in :mod:`anabranch.ops.data`.
"""

from anabranch.core.contract import api
from anabranch.data import (
    choosing,
    csv_files,
    dataset,
    examples,
    experimental,
    files,
    grouping,
    iterators,
    optionals,
    options,
    placing,
    saving,
    scanning,
    statistics,
    transformations,
)

__getattr__, __dir__ = api.module_attributes("data")
__all__ = [
    "choosing",
    "csv_files",
    "dataset",
    "examples",
    "experimental",
    "files",
    "grouping",
    "iterators",
    "optionals",
    "options",
    "placing",
    "saving",
    "scanning",
    "statistics",
    "transformations",
]
