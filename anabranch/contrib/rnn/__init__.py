"""``tf.contrib.rnn``: recurrent cells and static loops over time."""

from anabranch.contrib.rnn import crossing, frequency, independent
from anabranch.core.contract import api

__all__ = ["crossing", "frequency", "independent"]
__getattr__, __dir__ = api.module_attributes("contrib.rnn")
