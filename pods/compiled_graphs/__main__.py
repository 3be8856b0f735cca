"""Runs the program that the first argument names: `start` or `upload`."""

import sys

from pods.compiled_graphs import start, upload

if __name__ == "__main__":
    programs = {"start": start.main, "upload": upload.main}
    sys.exit(programs[sys.argv[1]](sys.argv[2:]))
