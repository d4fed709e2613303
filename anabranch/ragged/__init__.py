"""``tf.ragged`` and ``tf.RaggedTensor``: rows of different lengths.

:mod:`~anabranch.ragged.ragged_tensor` has the class, :mod:`~anabranch.ragged.arrays` what makes, joins and picks,
:mod:`~anabranch.ragged.elementwise` functions of elements and their broadcasting, :mod:`~anabranch.ragged.reductions`
sums and the like, :mod:`~anabranch.ragged.from_dense` rows cut out of dense tensors,
:mod:`~anabranch.ragged.session_values` how sessions and loops take them apart, :mod:`~anabranch.ragged.strings` strings
cut into pieces, :mod:`~anabranch.ragged.dispatch` which functions of ``tf`` take ragged tensors.
"""

from anabranch.core.contract import api
from anabranch.ragged import (
    arrays,
    constants,
    dispatch,
    elementwise,
    indexing,
    ragged_spec,
    ragged_tensor,
    reductions,
    row_partitions,
    session_values,
    strings,
    values,
)

__all__ = [
    "arrays",
    "constants",
    "dispatch",
    "elementwise",
    "indexing",
    "ragged_spec",
    "ragged_tensor",
    "reductions",
    "row_partitions",
    "session_values",
    "strings",
    "values",
]
__getattr__, __dir__ = api.module_attributes("ragged")
