"""Files that TensorFlow reads and writes: checkpoints, records, saved models."""

from anabranch.formats import checkpoints, tfrecord

__all__ = ["checkpoints", "tfrecord"]
