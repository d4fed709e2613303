"""Clusters: tasks that own state and devices, and sessions that run steps over several of them."""

from anabranch.cluster import server

__all__ = ["server"]
