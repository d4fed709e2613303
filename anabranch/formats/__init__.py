"""Files that TensorFlow reads and writes: checkpoints, records, saved models."""

from anabranch.formats import tfrecord

__all__ = ["tfrecord"]
