"""``tf.contrib.layers``: layers with arguments collections, regularizers, embeddings of columns left out."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.layers")
