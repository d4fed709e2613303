"""Summaries for TensorBoard: `tf.summary.*` and the writers of event files."""

from anabranch.core.contract import api
from anabranch.summary import collected, in_graph, old_names, writer

__all__ = ["collected", "in_graph", "old_names", "writer"]
__getattr__, __dir__ = api.module_attributes("summary")
