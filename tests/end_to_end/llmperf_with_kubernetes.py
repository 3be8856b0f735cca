"""The measuring Job's program where Kubernetes' files for a pod lie elsewhere: in `POD_FOLDER`."""

import os
import sys
from pathlib import Path

from pods.measuring import kubernetes_servers
from pods.measuring.program import main

kubernetes_servers.POD_FOLDER = Path(os.environ["POD_FOLDER"])
sys.exit(main(sys.argv[1:]))
