"""``tf.contrib.legacy_seq2seq``: decoders unrolled over lists of tensors, from before 1.0."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.legacy_seq2seq")
