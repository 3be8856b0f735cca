"""How long a full synthesis takes and how much memory, against an empty EKS cluster.

    python benchmarks/synth.py [--rounds 5] [--experiment FILE]

The floor is an app with one `aws_eks_v2.Cluster` and nothing else, under the same flags. Both run
in turn, each in processes of its own, into new folders, so that both meet the same load. Memory is
the peak of all processes of a run together (Python and Node.js).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
POLL_SECONDS = 0.02
MIB = 1024 * 1024

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


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One synthesis: wall-clock seconds and peak resident memory in MiB."""

    seconds: float
    peak_mib: float


def synthesize(command: Sequence[str], *, experiment: str) -> Cost:
    """Run one app as the CDK CLI would, into a new folder."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"] | {"experiment": experiment}
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "CDK_CONTEXT_JSON": json.dumps(context),
            "CDK_OUTDIR": folder,
            "PYTHONPATH": str(ROOT),
        }
        started = time.perf_counter()
        with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
            peak = _peak_until_end(process)
        seconds = time.perf_counter() - started
        if process.returncode != 0 or not list(Path(folder).glob("*.template.json")):
            raise SystemExit(f"{' '.join(command)[:60]}: no templates, exit {process.returncode}")
    return Cost(seconds=seconds, peak_mib=peak / MIB)


def _peak_until_end(process: subprocess.Popen[bytes]) -> int:
    """The largest sum of resident bytes over the process and its descendants."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_resident_bytes(pid) for pid in _family(process.pid)))
        time.sleep(POLL_SECONDS)
    return peak


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def report(floor: Sequence[Cost], full: Sequence[Cost]) -> str:
    """Medians of both and of the ratios of each round's pair."""
    lines = [f"{'':24}{'empty cluster':>15}{'experiment':>15}{'ratio':>8}   ratios of the rounds"]
    for title, unit, attribute in (("time", "s", "seconds"), ("peak memory", "MiB", "peak_mib")):
        low = [getattr(cost, attribute) for cost in floor]
        high = [getattr(cost, attribute) for cost in full]
        ratios = [b / a for a, b in zip(low, high, strict=True)]
        spread = " ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        lines.append(
            f"{f'{title} ({unit}), median':24}{statistics.median(low):15.2f}"
            f"{statistics.median(high):15.2f}{statistics.median(ratios):8.2f}   {spread}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run both in turn and print the comparison."""
    parser = argparse.ArgumentParser(description="synthesis against an empty EKS cluster")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default: 5)")
    parser.add_argument("--experiment", default="experiments/qwen3-32b.yaml")
    options = parser.parse_args()
    commands = ([sys.executable, "-c", EMPTY_CLUSTER], [sys.executable, "app.py"])
    for command in commands:  # once each for the caches of Python and jsii
        synthesize(command, experiment=options.experiment)
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for number in range(options.rounds):
        # The first of a pair may find the machine in another state: take turns.
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            costs[side].append(synthesize(commands[side], experiment=options.experiment))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    print(report(*costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
