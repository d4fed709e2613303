"""Differentiation of graphs: rules of ops and of users, the reverse walk that applies them, and what is built on it."""

from anabranch.autodiff import branches, control_flow, custom, function_gradients, gradients, hessians, loops, registry
from anabranch.core.contract import api

# Imported for the names that they publish and the slots that they fill.
__all__ = ["branches", "control_flow", "custom", "function_gradients", "gradients", "hessians", "loops", "registry"]

__getattr__, __dir__ = api.module_attributes("autodiff")
