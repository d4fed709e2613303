"""Collective ops, whose members have tests of their own."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/runtime/test_collectives.py"
KINDS = (
    "CollectiveReduce",
    "CollectiveReduceV2",
    "CollectiveGather",
    "CollectiveGatherV2",
    "CollectiveBcastSend",
    "CollectiveBcastSendV2",
    "CollectiveBcastRecv",
    "CollectiveBcastRecvV2",
    "NcclAllReduce",
    "NcclReduce",
    "NcclBroadcast",
)
ROWS = [elsewhere(kind, FILE, f'"{kind}"') for kind in KINDS]
ROWS.append(elsewhere("AnabranchExchange", "tests/cluster/test_multi_worker.py", '"AnabranchExchange"'))
