"""``tf.contrib.seq2seq``: decoders, attention, beam search, losses of sequences."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.seq2seq")
