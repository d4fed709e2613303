"""Stages that watch a pipeline and leave its elements as they are."""
