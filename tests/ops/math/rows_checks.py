"""Rows of checks of values; where printing and Python functions are tested."""

from __future__ import annotations

from anabranch.testing.op_cases import case, elsewhere, real, row

ROWS = [
    row("CheckNumerics", lambda x, **_: x, [case(real(2, 3), message="m"), case(real(0), message="m")]),
    row("CheckNumericsV2", lambda x, **_: x, [case(real(2, 3), message="m"), case(real(0), message="m")]),
    elsewhere("Assert", "tests/ops/math/test_checks.py"),
    elsewhere("EagerPyFunc", "tests/compat/test_later_names.py"),
    *(
        elsewhere(name, "tests/ops/io/test_printing_script.py")
        for name in ("Print", "PrintV2", "StringFormat", "PyFunc", "PyFuncStateless")
    ),
]
