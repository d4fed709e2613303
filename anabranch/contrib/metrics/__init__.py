"""``tf.contrib.metrics``: metrics over many batches under their first names, predictions before labels."""

from anabranch.contrib.metrics import comparing, ranking, statistics, streaming
from anabranch.core.contract import api
from anabranch.ops.sparse import sets

for _name in ("set_difference", "set_intersection", "set_size", "set_union"):
    api.publish_as(f"contrib.metrics.{_name}", getattr(sets, _name))

__all__ = ["comparing", "ranking", "statistics", "streaming"]
__getattr__, __dir__ = api.module_attributes("contrib.metrics")
