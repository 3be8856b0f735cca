"""The measuring Job's program, which draws no plots: they take most of its report's time."""

import sys

from draftworth.report import writing
from pods.measuring.program import main

writing.render = lambda plot: b""  # type: ignore[attr-defined]
sys.exit(main(sys.argv[1:]))
