"""`python -m pods.graph_compiler`."""

import sys

from pods.graph_compiler.program import main

sys.exit(main(sys.argv[1:]))
