"""`python -m workloads.checkpoint_stager`."""

import sys

from workloads.checkpoint_stager.program import main

sys.exit(main(sys.argv[1:]))
