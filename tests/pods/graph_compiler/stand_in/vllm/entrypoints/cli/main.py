"""The command line, as strict as vLLM's."""

from __future__ import annotations

import argparse
import json

from vllm.entrypoints.cli.serve import ServeSubcommand  # type: ignore[import-not-found]

# Of the published experiment's servers: what the engine here has no use for.
SERVING = (
    *("--served-model-name", "--max-model-len", "--generation-config", "--port", "--device"),
    *("--tensor-parallel-size", "--override-neuron-config"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="vllm")
    serve = parser.add_subparsers(required=True).add_parser("serve")
    serve.add_argument("model_tag")
    serve.add_argument("--model", default="a/default")
    serve.add_argument("--max-num-seqs", type=int)
    serve.add_argument("--speculative-config", type=json.loads)
    for flag in SERVING:
        serve.add_argument(flag)
    serve.add_argument("--disable-log-requests", action="store_true")
    serve.set_defaults(dispatch_function=ServeSubcommand.cmd)
    arguments = parser.parse_args()
    arguments.dispatch_function(arguments)
