"""Runs the program that the first argument names: `start`, `upload` or `runtime`."""

import sys

from pods.compiled_graphs import neuron_runtime, start, upload

if __name__ == "__main__":
    programs = {"runtime": neuron_runtime.main, "start": start.main, "upload": upload.main}
    sys.exit(programs[sys.argv[1]](sys.argv[2:]))
