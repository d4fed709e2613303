"""``tf.contrib.rnn``: recurrent cells and static loops over time."""

from anabranch.core import api

__getattr__, __dir__ = api.module_attributes("contrib.rnn")
