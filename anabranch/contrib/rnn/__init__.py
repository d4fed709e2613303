"""``tf.contrib.rnn``: recurrent cells and static loops over time."""

from anabranch.core.contract import api

__getattr__, __dir__ = api.module_attributes("contrib.rnn")
