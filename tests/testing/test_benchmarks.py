"""Benchmarks: which run, and what they report."""

from __future__ import annotations

import json

import pytest

import anabranch as tf
from anabranch.core.protos import test_log_pb2
from anabranch.testing import benchmarks

RAN: list[str] = []


class SomeBenchmark(tf.test.Benchmark):
    def notBenchmark(self):
        RAN.append("not")

    def benchmarkOne(self):
        RAN.append("one")

    def benchmarkReport(self):
        RAN.append("report")
        self.report_benchmark(iters=2, cpu_time=0.5, wall_time=1.5, throughput=3.0, extras={"n": 3, "text": "t"})

    def benchmarkOther(self):
        RAN.append("other")
        self.report_benchmark(iters=1, name="named/here")

    def benchmarkStep(self):
        RAN.append("step")
        with tf.Graph().as_default(), tf.Session() as session:
            self.result = self.run_op_benchmark(session, tf.square(2.0), min_iters=3, store_trace=True, mbs=5)


def entry(path: object) -> object:
    (only,) = test_log_pb2.BenchmarkEntries.FromString(path.read_bytes()).entry  # type: ignore[attr-defined]
    return only


def test_reports_go_to_files_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_REPORT_FILE_PREFIX", f"{tmp_path}/report.")
    RAN.clear()
    benchmarks._run_benchmarks(r"SomeBenchmark\.benchmark(R|Oth)")
    assert sorted(RAN) == ["other", "report"]
    report = entry(tmp_path / "report.SomeBenchmark.benchmarkReport")
    assert (report.iters, report.cpu_time, report.wall_time, report.throughput) == (2, 0.5, 1.5, 3.0)
    assert report.extras["n"].double_value == 3
    assert report.extras["text"].string_value == "t"
    assert entry(tmp_path / "report.SomeBenchmark.named__here").name == "SomeBenchmark.named/here"
    with pytest.raises(OSError, match=r"^File already exists: .*benchmarkReport"):
        SomeBenchmark().benchmarkReport()


def test_reports_are_printed_otherwise(monkeypatch, capsys):
    monkeypatch.delenv("TEST_REPORT_FILE_PREFIX", raising=False)
    SomeBenchmark().benchmarkReport()
    shown = capsys.readouterr().out
    assert 'name: "SomeBenchmark.benchmarkReport"' in shown
    assert "wall_time: 1.5" in shown


def test_a_step_is_timed_and_traced(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_REPORT_FILE_PREFIX", f"{tmp_path}/r.")
    benchmark = SomeBenchmark()
    benchmark.benchmarkStep()
    report = entry(tmp_path / "r.SomeBenchmark.benchmarkStep")
    assert report.iters == 3
    assert report.wall_time > 0
    assert report.throughput == pytest.approx(5 / report.wall_time)
    assert json.loads(report.extras["full_trace_chrome_format"].string_value)["traceEvents"]
    assert benchmark.result["wall_time"] == report.wall_time


def test_which_classes_are_run():
    assert SomeBenchmark in benchmarks.GLOBAL_BENCHMARK_REGISTRY
    assert tf.test.Benchmark not in benchmarks.GLOBAL_BENCHMARK_REGISTRY
    assert tf.test.Benchmark.is_abstract()
    assert not SomeBenchmark.is_abstract()
    RAN.clear()
    benchmarks._run_benchmarks(r"test_benchmarks\.SomeBenchmark\.benchmarkOne$")
    assert RAN == ["one"]


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"^extras must be a dict"):
        benchmarks._global_report_benchmark("name", extras=[1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^Unable to determine calling Benchmark class"):
        benchmarks.Benchmark._get_name(object())  # type: ignore[arg-type]
