"""Runs the measuring Job's program: `python -m pods.measuring`."""

import sys

from pods.log import log_crashes
from pods.measuring.program import main

log_crashes()
sys.exit(main(sys.argv[1:]))
