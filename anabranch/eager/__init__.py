"""Ops that run at once, tapes that differentiate them, and functions that become graphs.

Start with :mod:`anabranch.eager.mode`; ``docs/eager.md`` is the guide, ``docs/notes/0020-eager.md`` the design.
"""

from anabranch.eager import derivatives as _derivatives  # noqa: F401
from anabranch.eager import devices as _devices  # noqa: F401
from anabranch.eager import forward as _forward  # noqa: F401
from anabranch.eager import function as _function  # noqa: F401
from anabranch.eager import mode as _mode  # noqa: F401 - imported for what it publishes
from anabranch.eager import process_options as _process_options  # noqa: F401
from anabranch.eager import tape as _tape  # noqa: F401
from anabranch.eager import wrapped_function as _wrapped_function  # noqa: F401
