"""``tf.profiler.ProfileOptionBuilder``: options of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract.api import public


@public("profiler.ProfileOptionBuilder")
class ProfileOptionBuilder:
    """Options of a profile, as a dictionary: each ``with_`` sets one and gives the builder back."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self._options = (
            dict(options)
            if options is not None
            else {
                "max_depth": 100,
                "min_bytes": 0,
                "min_peak_bytes": 0,
                "min_residual_bytes": 0,
                "min_output_bytes": 0,
                "min_micros": 0,
                "min_accelerator_micros": 0,
                "min_cpu_micros": 0,
                "min_params": 0,
                "min_float_ops": 0,
                "min_occurrence": 0,
                "order_by": "name",
                "account_type_regexes": [".*"],
                "start_name_regexes": [".*"],
                "trim_name_regexes": [],
                "show_name_regexes": [".*"],
                "hide_name_regexes": [],
                "account_displayed_op_only": False,
                "select": ["micros"],
                "step": -1,
                "output": "stdout",
            }
        )

    @staticmethod
    def time_and_memory(
        min_micros: int = 1,
        min_bytes: int = 1,
        min_accelerator_micros: int = 0,
        min_cpu_micros: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> dict[str, Any]:
        """Options that show time and memory of operations."""
        builder = ProfileOptionBuilder()
        builder._options.update(
            min_micros=min_micros,
            min_bytes=min_bytes,
            min_accelerator_micros=min_accelerator_micros,
            min_cpu_micros=min_cpu_micros,
            min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes,
            min_output_bytes=min_output_bytes,
            order_by="micros",
            max_depth=10000,
            select=["micros", "bytes"],
            hide_name_regexes=[],
            account_type_regexes=[".*"],
            account_displayed_op_only=True,
        )
        return builder.build()

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Options that show the number of values of trainable variables."""
        builder = ProfileOptionBuilder()
        builder._options.update(
            account_type_regexes=["_trainable_variables"],
            account_displayed_op_only=True,
            order_by="name",
            select=["params"],
            max_depth=10000,
        )
        return builder.build()

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Options that show numbers of operations on floats."""
        builder = ProfileOptionBuilder()
        builder._options.update(
            min_float_ops=1,
            account_displayed_op_only=True,
            order_by="float_ops",
            select=["float_ops"],
            max_depth=10000,
        )
        return builder.build()

    def build(self) -> dict[str, Any]:
        """The options."""
        return dict(self._options)

    def _with(self, **changes: Any) -> ProfileOptionBuilder:
        self._options.update(changes)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Levels to show."""
        return self._with(max_depth=max_depth)

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> ProfileOptionBuilder:
        """Least times to show, in microseconds."""
        return self._with(
            min_micros=min_micros, min_accelerator_micros=min_accelerator_micros, min_cpu_micros=min_cpu_micros
        )

    def with_node_names(
        self,
        start_name_regexes: Any = None,
        show_name_regexes: Any = None,
        hide_name_regexes: Any = None,
        trim_name_regexes: Any = None,
    ) -> ProfileOptionBuilder:
        """Regular expressions of the names to begin at, to show, to hide, and to trim."""
        given = {
            "start_name_regexes": start_name_regexes,
            "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes,
            "trim_name_regexes": trim_name_regexes,
        }
        return self._with(**{key: value for key, value in given.items() if value is not None})

    def with_min_memory(
        self, min_bytes: int = 0, min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0
    ) -> ProfileOptionBuilder:
        """Least numbers of bytes to show: requested, at most at a time, left after the operation, of outputs."""
        return self._with(
            min_bytes=min_bytes,
            min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes,
            min_output_bytes=min_output_bytes,
        )

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Least number of parameters to show."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Least number of operations of a type to show."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Least number of floating-point operations to show."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> ProfileOptionBuilder:
        """Count operations of which a type or the device matches one of these wholly."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Whether totals are of what is shown only."""
        return self._with(account_displayed_op_only=is_true)

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Which step to show."""
        return self._with(step=step)

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """The file to write to."""
        return self._with(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> ProfileOptionBuilder:
        """The file to write a trace to."""
        return self._with(output=f"timeline:outfile={timeline_file}")

    def with_empty_output(self) -> ProfileOptionBuilder:
        """No output."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Output on the terminal."""
        return self._with(output="stdout")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """What to sort by."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> ProfileOptionBuilder:
        """What to show."""
        return self._with(select=list(attributes))
