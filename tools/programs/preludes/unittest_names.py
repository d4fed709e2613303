"""Python 3.12 and later: unittest has lost the names that it had in Python 2."""

import unittest

for old, new in {
    "assertItemsEqual": "assertCountEqual",
    "assertEquals": "assertEqual",
    "assertRaisesRegexp": "assertRaisesRegex",
    "assertRegexpMatches": "assertRegex",
}.items():
    if not hasattr(unittest.TestCase, old):
        setattr(unittest.TestCase, old, getattr(unittest.TestCase, new))
