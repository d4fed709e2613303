"""Where the ops on lists of tensors are tested: a list is not an array that a table could show."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/lists/test_tensor_list.py"
KINDS = (
    "EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListSplit", "TensorListScatter",
    "TensorListScatterV2", "TensorListPushBack", "TensorListPopBack", "TensorListPushBackBatch", "TensorListSetItem",
    "TensorListScatterIntoExistingList", "TensorListResize", "TensorListConcatLists", "TensorListGetItem",
    "TensorListStack", "TensorListGather", "TensorListConcat", "TensorListConcatV2", "TensorListLength",
    "TensorListElementShape",
)  # fmt: skip

ROWS = [elsewhere(kind, FILE, f'"{kind}"') for kind in KINDS]
