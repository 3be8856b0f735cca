"""Entry point of `python -m pods.checkpoint_stager`."""

import sys

from pods.checkpoint_stager.program import main

sys.exit(main(sys.argv[1:]))
