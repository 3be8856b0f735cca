"""`python -m draftbench`."""

import sys

from draftbench.cli import main

sys.exit(main(sys.argv[1:]))
