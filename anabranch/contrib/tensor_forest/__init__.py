"""``tf.contrib.tensor_forest``: random forests that learn from a stream of batches, in a session."""

from anabranch.contrib.tensor_forest import graphs, inputs, operations, parameters, resources
from anabranch.core.contract import api

__all__ = ["graphs", "inputs", "operations", "parameters", "resources"]
__getattr__, __dir__ = api.module_attributes("contrib.tensor_forest")
