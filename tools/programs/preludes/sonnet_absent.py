"""No Sonnet in the environment: an empty module in its place, for programs that import it and do not use it."""

import sys
import types

sys.modules["sonnet"] = types.ModuleType("sonnet")
