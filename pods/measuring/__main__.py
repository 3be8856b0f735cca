"""`python -m pods.measuring`."""

from __future__ import annotations

import sys

from pods.measuring.program import main

sys.exit(main(sys.argv[1:]))
