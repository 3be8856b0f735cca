"""Compares the CPU seconds of a full synthesis with those of an empty EKS cluster.

    python -m benchmarks.synth [--rounds 5] [--garbage-collection]

The empty cluster (the floor) is an app with only an `aws_eks_v2.Cluster` and the same CDK context.
Both apps find the bytecode that a first run has written, and both have one V8 helper thread, so
that Node.js compiles as much in each run.

This project's app runs as cdk.json starts it, with `-O`, and without Python's garbage collection.
With the option `--garbage-collection`, it runs with garbage collection.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from draftworth.truth.trial import run_measured

ROOT = Path(__file__).resolve().parents[1]
TARGET_CPU_RATIO = 1.4
TIMEOUT_SECONDS = 300.0
EXPERIMENT = ROOT / "experiments" / "qwen3-32b.yaml"

EMPTY_CLUSTER = """
import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
app = cdk.App()
stack = cdk.Stack(app, "floor", env=cdk.Environment(region="us-east-2"))
eks.Cluster(
    stack,
    "Cluster",
    version=eks.KubernetesVersion.V1_35,
    kubectl_provider_options=eks.KubectlProviderOptions(
        kubectl_layer=KubectlV35Layer(stack, "Kubectl")
    ),
)
app.synth()
"""


def synthesis_cpu_seconds(command: Sequence[str]) -> float:
    """Run an app as the CDK CLI would, with its output in a new folder; return its CPU seconds."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    with tempfile.TemporaryDirectory() as folder:
        finished = run_measured(
            command,
            folder=Path(folder),
            timeout_seconds=TIMEOUT_SECONDS,
            environment={
                "CDK_CONTEXT_JSON": json.dumps(context | {"experiment": str(EXPERIMENT)}),
                "CDK_OUTDIR": folder,
                "PYTHONPATH": str(ROOT),
                "PYTHONDONTWRITEBYTECODE": "",
                "NODE_OPTIONS": "--v8-pool-size=1",
            },
        )
        if not list(Path(folder).glob("*.template.json")):
            raise SystemExit(f"{' '.join(command)[:60]}: wrote no templates")
    return finished.cpu_seconds


COLLECTING = """
import gc, runpy, sys
gc.disable = gc.freeze = lambda: None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def main() -> int:
    """Run both apps alternately and print the median ratio; return 1 if it exceeds the target."""
    parser = argparse.ArgumentParser(description="synthesis against an empty EKS cluster")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default: 5)")
    parser.add_argument("--garbage-collection", action="store_true", help="the app collects it")
    options = parser.parse_args()
    app = str(ROOT / "app.py")
    empty, full = [sys.executable, "-c", EMPTY_CLUSTER], [sys.executable, "-O", app]
    if options.garbage_collection:
        full = [sys.executable, "-O", "-c", COLLECTING, app]
    for command in (empty, full):  # the first runs fill the caches of Python and jsii
        synthesis_cpu_seconds(command)
    ratios = []
    for number in range(options.rounds):
        # The machine may be in another state for the first app of a pair, so the order alternates.
        pair = (empty, full) if number % 2 == 0 else (full, empty)
        taken = {command[-1]: synthesis_cpu_seconds(command) for command in pair}
        ratios.append(taken[full[-1]] / taken[empty[-1]])
        print(f"round {number + 1} of {options.rounds}: {ratios[-1]:.2f} times the CPU seconds")
    ratio = statistics.median(ratios)
    is_met = ratio <= TARGET_CPU_RATIO
    print(
        f"Median {ratio:.2f}; target, at most {TARGET_CPU_RATIO:g}: {'met' if is_met else 'MISSED'}"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
