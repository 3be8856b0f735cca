"""The measuring Job's program, which draws no plots: they take most of its report's time.

Kubernetes' files for a pod are in `POD_FOLDER`, where that is set.
"""

import os
import sys
from pathlib import Path

from draftworth.report import writing
from pods.measuring import kubernetes_servers
from pods.measuring.program import main

writing.render = lambda plot, theme: b""  # type: ignore[attr-defined]
if folder := os.environ.get("POD_FOLDER"):
    kubernetes_servers.POD_FOLDER = Path(folder)
sys.exit(main(sys.argv[1:]))
