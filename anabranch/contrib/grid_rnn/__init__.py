"""``tf.contrib.grid_rnn``: recurrent cells along several dimensions at once (Kalchbrenner et al., 2015)."""

from anabranch.contrib.grid_rnn import cells
from anabranch.core.contract import api

__all__ = ["cells"]
__getattr__, __dir__ = api.module_attributes("contrib.grid_rnn")
