"""Where the ops that make summaries are tested: what they hold is compared with what TensorFlow's hold."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

NAMES = "ScalarSummary HistogramSummary ImageSummary AudioSummaryV2 TensorSummary TensorSummaryV2 MergeSummary"

ROWS = [elsewhere(name, "tests/summary/test_golden.py") for name in NAMES.split()]
ROWS.append(elsewhere("AudioSummary", "tests/summary/test_ops.py"))
WRITERS = {
    "SummaryWriter": "", "CreateSummaryFileWriter": "create_file_writer", "CloseSummaryWriter": "writer.close()",
    "FlushSummaryWriter": "writer.flush()", "WriteScalarSummary": "contrib.scalar(",
    "WriteHistogramSummary": "contrib.histogram(", "WriteImageSummary": "contrib.image(",
    "WriteAudioSummary": "contrib.audio(", "WriteSummary": "contrib.generic(", "WriteRawProtoSummary": "",
    "WriteGraphSummary": "contrib.graph(", "ImportEvent": "contrib.import_event(",
}  # fmt: skip
ROWS += [elsewhere(name, "tests/summary/test_in_graph.py", word or name) for name, word in WRITERS.items()]
