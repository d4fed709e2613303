"""Differentiation of graphs: rules of ops and of users, the reverse walk that applies them, and what is built on it."""

from anabranch.autodiff import branches, control_flow, custom, gradients, hessians, loops, registry

# Imported for the names that they publish and the slots that they fill.
__all__ = ["branches", "control_flow", "custom", "gradients", "hessians", "loops", "registry"]
