"""`python -m pods.draft_reader`."""

import sys

from pods.draft_reader.program import main

sys.exit(main(sys.argv[1:]))
