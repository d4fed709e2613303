"""The stage that leaves out elements that cannot be made."""

from __future__ import annotations

import logging

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool
from anabranch.ops.data.pipeline import ELEMENTS, Dataset, Element, Iterator, stage

_log = logging.getLogger("anabranch")


class _WithoutErrors(Iterator):
    def next(self) -> Element | None:
        pipeline = self.context.pipeline
        while True:
            try:
                return self.inputs[0].next()
            except errors.OpError as problem:
                pipeline.current_token.raise_if_cancelled(self.dataset.op)
                pipeline.token.raise_if_cancelled(self.dataset.op)
                if self.dataset.logs:
                    _log.warning("Error raised with error message %s", problem)


@stage("ExperimentalIgnoreErrorsDataset", "input_dataset: variant", {**ELEMENTS, "log_warning": Bool(False)})
@stage("IgnoreErrorsDataset", "input_dataset: variant", {**ELEMENTS, "log_warning": Bool(False)})
class WithoutErrors(Dataset):
    """The elements of the input that can be made; those whose making fails are left out, and each of these alone."""

    iterator = _WithoutErrors

    def configure(self, ctx, attrs, **operands):  # type: ignore[no-untyped-def]
        self.logs = bool(attrs["log_warning"])
