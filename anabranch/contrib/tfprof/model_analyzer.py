"""``tf.contrib.tfprof.model_analyzer``: the names of `tf.profiler` in TensorFlow's first versions."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.debug.model_profile import Profiler, profile
from anabranch.debug.profile_options import ProfileOptionBuilder

_TO_NO_FILE = {"dump_to_file": ""}
for _name, _value in {
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS": {**ProfileOptionBuilder.trainable_variables_parameter(), **_TO_NO_FILE},
    "FLOAT_OPS_OPTIONS": {**ProfileOptionBuilder.float_operation(), **_TO_NO_FILE},
    "PRINT_ALL_TIMING_MEMORY": {**ProfileOptionBuilder.time_and_memory(), "order_by": "name", **_TO_NO_FILE},
    "Profiler": Profiler,
    "profile": profile,
}.items():
    public(f"contrib.tfprof.model_analyzer.{_name}")(_value)


@public("contrib.tfprof.model_analyzer.print_model_analysis")
def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: dict[str, Any] | None = None,
) -> Any:
    """Show a profile, as `tf.profiler.profile` does, and return its root.

    Args:
        graph: a `tf.Graph`.
        run_meta: the RunMetadata of a traced step.
        op_log: not supported; must be None.
        tfprof_cmd: the view: ``"scope"``, ``"graph"``, ``"op"`` or ``"code"``.
        tfprof_options: options such as ``tf.contrib.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS``; their
            ``dump_to_file`` is a file to write to.
    """
    return profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)


__getattr__, __dir__ = api.module_attributes("contrib.tfprof.model_analyzer")
