"""Differentiation of graphs: rules of ops and of users, the reverse walk that applies them, and what is built on it."""

from anabranch.autodiff import control_flow, custom, gradients, registry

__all__ = ["control_flow", "custom", "gradients", "registry"]  # imported for the names that they publish
