"""`python -m workloads.llmperf`."""

import sys

from workloads.llmperf.program import main

sys.exit(main(sys.argv[1:]))
