"""Pipelines that several workers, replicas or devices share."""
