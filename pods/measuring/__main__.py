"""Runs the measuring Job's program: `python -m pods.measuring`."""

import sys

from pods.measuring.program import main

sys.exit(main(sys.argv[1:]))
