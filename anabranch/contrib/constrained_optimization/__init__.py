"""``tf.contrib.constrained_optimization``: minimization under inequalities, as a game of two players.

One player moves the parameters of a model down a weighted sum of the objective and the constraints, the other one the
weights up (Cotter, Jiang and Sridharan, 2018).
"""

from anabranch.contrib.constrained_optimization import candidates, games, problems
from anabranch.core.contract import api

__all__ = ["candidates", "games", "problems"]
__getattr__, __dir__ = api.module_attributes("contrib.constrained_optimization")
