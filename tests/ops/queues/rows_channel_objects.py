"""Where the ops on staging areas, barriers, accumulators and record inputs are tested: they wait, or act on objects."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

STAGING = "tests/ops/queues/test_staging.py"
BARRIERS = "tests/ops/queues/test_barriers.py"
ACCUMULATORS = "tests/ops/queues/test_accumulators.py"
AREA = {"Stage": "put(", "Unstage": "get(", "StagePeek": "peek(", "StageSize": "size(", "StageClear": "clear("}
KEYED = {
    "Stage": "put(",
    "Unstage": "get(",
    "UnstageNoKey": "get()",
    "Peek": "peek(",
    "Size": "size(",
    "IncompleteSize": "incomplete_size(",
    "Clear": "clear(",
}
BARRIER = {
    "Barrier": "Barrier(",
    "BarrierInsertMany": "insert_many(",
    "BarrierTakeMany": "take_many(",
    "BarrierClose": "close(",
    "BarrierReadySize": "ready_size(",
    "BarrierIncompleteSize": "incomplete_size(",
}

ROWS = [
    *[elsewhere(kind, STAGING, word) for kind, word in AREA.items()],
    *[elsewhere(f"{form}{kind}", STAGING, word) for form in ("Map", "OrderedMap") for kind, word in KEYED.items()],
    *[elsewhere(kind, BARRIERS, word) for kind, word in BARRIER.items()],
    elsewhere("ConditionalAccumulator", ACCUMULATORS),
    elsewhere("AccumulatorApplyGradient", ACCUMULATORS, "apply_grad("),
    elsewhere("AccumulatorNumAccumulated", ACCUMULATORS, "num_accumulated("),
    elsewhere("AccumulatorSetGlobalStep", ACCUMULATORS, "set_global_step("),
    elsewhere("AccumulatorTakeGradient", ACCUMULATORS, "take_grad("),
    elsewhere("ResourceConditionalAccumulator", ACCUMULATORS),
    elsewhere("ResourceAccumulatorApplyGradient", ACCUMULATORS),
    elsewhere("ResourceAccumulatorNumAccumulated", ACCUMULATORS),
    elsewhere("ResourceAccumulatorSetGlobalStep", ACCUMULATORS),
    elsewhere("ResourceAccumulatorTakeGradient", ACCUMULATORS),
    elsewhere("SparseConditionalAccumulator", ACCUMULATORS),
    elsewhere("SparseAccumulatorApplyGradient", ACCUMULATORS, "apply_indexed_slices_grad("),
    elsewhere("SparseAccumulatorTakeGradient", ACCUMULATORS, "take_indexed_slices_grad("),
    elsewhere("RecordInput", "tests/ops/io/test_record_input.py"),
]
