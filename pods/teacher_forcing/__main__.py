"""`python -m pods.teacher_forcing`."""

import sys

try:
    # Within: torch takes seconds to load, and may be interrupted there too.
    from pods.teacher_forcing.program import main

    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    sys.exit(1)  # who started this says so
