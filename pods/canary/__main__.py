"""Entry point of `python -m pods.canary`."""

import sys

from pods.canary.program import main

sys.exit(main(sys.argv[1:]))
