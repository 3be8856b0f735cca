"""`python -m pods.teacher_forcing`."""

import sys

from pods.teacher_forcing.program import main

sys.exit(main(sys.argv[1:]))
