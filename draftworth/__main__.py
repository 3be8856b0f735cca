"""`python -m draftworth`."""

import sys

from draftworth.cli import main

sys.exit(main(sys.argv[1:]))
