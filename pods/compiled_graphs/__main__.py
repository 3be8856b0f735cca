"""`start ...` or `upload ...`."""

import sys
from collections.abc import Callable, Mapping

from pods.compiled_graphs import start, upload

PROGRAMS: Mapping[str, Callable[[list[str]], int]] = {"start": start.main, "upload": upload.main}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"given {sys.argv[1:2]}, allowed: one of {sorted(PROGRAMS)}")
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
