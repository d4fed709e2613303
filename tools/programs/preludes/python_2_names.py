"""Python: names of version 2 that programs of that time use without importing them."""

import builtins
import time

builtins.xrange = range
builtins.unicode = str
builtins.basestring = str
builtins.long = int
time.clock = time.perf_counter
