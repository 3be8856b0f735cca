"""The measuring Job's program, which draws no plots: they take most of its report's time.

It excludes no request: on a busy machine the client waits for a core.
"""

import math
import sys

from draftworth.measuring import clock, connections
from draftworth.report import writing
from pods.measuring.program import main

writing.render = lambda plot: b""  # type: ignore[attr-defined]
clock.MAX_WAIT_SHARE, connections._MAX_AGE_NS = math.inf, sys.maxsize
sys.exit(main(sys.argv[1:]))
