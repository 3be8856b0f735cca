"""Every name made here: what people and commands meet, and what other systems accept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from draftworth.records.deployment import CapacityKind
from draftworth.records.results import RUNS_FOLDER

PROJECT = "draftworth"
EXPERIMENT_TAG = f"{PROJECT}:experiment"
PART_TAG = f"{PROJECT}:part"
# Of a bucket: what it holds, one of `BUCKETS`. Its generated name says so too, but may be cut.
HOLDS_TAG = f"{PROJECT}:holds"
CHECKPOINTS, ARTIFACTS, RESULTS = BUCKETS = ("checkpoints", "artifacts", "results")
# The parts of an experiment's stack, in the order in which they need each other; what is in a part
# has a logical id that begins with the part's name.
PARTS = ("network", "storage", "cluster", "benchmark")

# How nodes are bought, in the accelerator node group's name.
BUYING_NAMES = {"on_demand": "od", "spot": "spot", "capacity_block": "block"}

# Outputs of the stack that commands look up: `s3://BUCKET/`.
CHECKPOINTS_OUTPUT = "CheckpointsLocation"
ARTIFACTS_OUTPUT = "ArtifactsLocation"
RESULTS_OUTPUT = "ResultsLocation"

# A folder of the results bucket, beside `results.CLAIMS_FOLDER` and `control.CONTROL_PREFIX`.
RUNS_PREFIX = f"{RUNS_FOLDER}/"


def dns_label(name: str) -> str:
    """A DNS label (RFC 1035): what Services and stacks are called. `qwen3-1.7b` is `qwen3-1-7b`."""
    return name.replace(".", "-")


def content_hash(value: Any, *, length: int) -> str:
    """The first `length` hex digits of the SHA-256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, kw_only=True)
class Names:
    """Every name that is made from the experiment's own."""

    experiment: str

    @property
    def prefix(self) -> str:
        """`draftworth-` and the experiment as a DNS label; at most 43 characters."""
        return f"{PROJECT}-{dns_label(self.experiment)}"

    # The log groups' names are made from the cluster's, and the dashboard's address is to be known
    # before it exists: both are fixed.
    stack = cluster = dashboard = prefix

    @property
    def pod_logs(self) -> str:
        """The log group in which Container Insights keeps what every container wrote."""
        return f"/aws/containerinsights/{self.cluster}/application"

    @property
    def assets(self) -> str:
        """The folder of CDK's asset bucket that has the stack's files, prompts among them: of this
        and every earlier deploy. It ends in `/`, which no other name goes on after."""
        return f"{self.prefix}/"

    @property
    def accelerator(self) -> str:
        """What the names of accelerator node groups begin with, and their launch template's name.

        The controller's rights are for `draftworth-qwen3-32b-accelerator-*`.
        """
        return f"{self.cluster}-accelerator"

    def node_group(self, capacity: CapacityKind) -> str:
        """`CLUSTER-accelerator-spot`: another way of buying is another node group.

        Said and not generated, so that commands know it. With the way of buying in it, because a
        group of a fixed name cannot be replaced. At most 61 of EKS's 63 characters.
        """
        return f"{self.accelerator}-{BUYING_NAMES[capacity]}"

    @property
    def stack_tags(self) -> dict[str, str]:
        """Tags of the stack, and of everything in it."""
        return {EXPERIMENT_TAG: self.experiment}

    def tags(self, part: str) -> dict[str, str]:
        """Tags of everything in a part: what `leftovers` and a bill are sorted by."""
        return {**self.stack_tags, PART_TAG: part}
