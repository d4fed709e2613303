"""``tf.distribute``: strategies that place variables and replicas of a computation on devices."""

from anabranch.core.contract.api import module_attributes
from anabranch.distribute import cluster_resolvers, losses, mirrored, multi_worker, parameter_server, replicas, strategy

__getattr__, __dir__ = module_attributes("distribute")

__all__ = ["cluster_resolvers", "losses", "mirrored", "multi_worker", "parameter_server", "replicas", "strategy"]
