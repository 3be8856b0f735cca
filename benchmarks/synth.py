"""Compares a full synthesis with that of an empty EKS cluster: CPU seconds, time and memory.

    python -m benchmarks.synth [--rounds 5] [--experiment FILE]

The empty cluster (the floor) is an app with only an `aws_eks_v2.Cluster` and the same CDK context;
with `NODE_OPTIONS=--v8-pool-size=1` before this command it has one V8 helper thread, as `app.py`.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from draftworth.truth.processes import Finished, run_measured

ROOT = Path(__file__).resolve().parents[1]
TARGET_CPU_RATIO = 1.4
TIMEOUT_SECONDS = 300.0
FIGURES = {"CPU s": "cpu_seconds", "wall-clock s": "seconds", "peak MiB": "peak_mib"}

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


def synthesize(command: Sequence[str], *, experiment: Path) -> Finished:
    """Run an app as the CDK CLI would, with its output in a new folder."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    with tempfile.TemporaryDirectory() as folder:
        finished = run_measured(
            command,
            folder=Path(folder),
            timeout_seconds=TIMEOUT_SECONDS,
            environment={
                "CDK_CONTEXT_JSON": json.dumps(context | {"experiment": str(experiment)}),
                "CDK_OUTDIR": folder,
                "PYTHONPATH": str(ROOT),
            },
        )
        if not list(Path(folder).glob("*.template.json")):
            raise SystemExit(f"{' '.join(command)[:60]}: wrote no templates")
    return finished


def compared(floor: Sequence[Finished], full: Sequence[Finished]) -> tuple[Table, float]:
    """Return a table of medians and ratios, and the median ratio of CPU seconds (full / floor)."""
    table = Table("median", "empty cluster", "experiment", "ratio", "ratios of the rounds")
    medians = {}
    for title, figure in FIGURES.items():
        low = [getattr(finished, figure) for finished in floor]
        high = [getattr(finished, figure) for finished in full]
        ratios = sorted(b / a for a, b in zip(low, high, strict=True))
        medians[title] = statistics.median(ratios)
        shown = (statistics.median(low), statistics.median(high), medians[title])
        table.add_row(title, *map("{:.2f}".format, shown), " ".join(map("{:.2f}".format, ratios)))
    return table, medians["CPU s"]


def main() -> int:
    """Run both apps alternately and print the comparison; return 0."""
    parser = argparse.ArgumentParser(description="synthesis against an empty EKS cluster")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default: 5)")
    parser.add_argument("--experiment", type=Path, default=ROOT / "experiments" / "qwen3-32b.yaml")
    options = parser.parse_args()
    commands = ([sys.executable, "-c", EMPTY_CLUSTER], [sys.executable, str(ROOT / "app.py")])
    experiment = options.experiment.absolute()
    for command in commands:  # fills the caches of Python and jsii
        synthesize(command, experiment=experiment)
    costs: tuple[list[Finished], list[Finished]] = ([], [])
    for number in range(options.rounds):
        # The machine may be in another state for the first app of a pair, so the order alternates.
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            costs[side].append(synthesize(commands[side], experiment=experiment))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    table, ratio = compared(*costs)
    Console().print(table)
    verdict = "met" if ratio <= TARGET_CPU_RATIO else "MISSED"
    print(f"Target (at most {TARGET_CPU_RATIO:g} times the floor's CPU seconds): {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
