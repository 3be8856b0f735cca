"""Entry point of `python -m pods.checkpoint_stager`."""

import sys

from pods.checkpoint_stager.program import main
from pods.log import log_crashes

log_crashes()
sys.exit(main(sys.argv[1:]))
