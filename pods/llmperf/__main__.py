"""`python -m pods.llmperf`."""

import sys

from pods.llmperf.program import main

sys.exit(main(sys.argv[1:]))
