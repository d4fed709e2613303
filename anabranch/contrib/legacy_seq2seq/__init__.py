"""``tf.contrib.legacy_seq2seq``: sequence models unrolled over lists of tensors, one for each step, from before 1.0.

An encoder reads a list of ``[batch]`` tensors; a decoder writes one, fed with the true previous symbols (training), or
with its own (``feed_previous``). :mod:`.decoders` has the loops, :mod:`.models` encoders with decoders,
:mod:`.losses` losses and the choice of a bucket of lengths. Variables are named as TensorFlow 1.15 names them.
"""

from anabranch.contrib.legacy_seq2seq import decoders, losses, models
from anabranch.core.contract import api

__all__ = ["decoders", "losses", "models"]
__getattr__, __dir__ = api.module_attributes("contrib.legacy_seq2seq")
