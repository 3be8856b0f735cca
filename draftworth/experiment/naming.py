"""Names of AWS and Kubernetes objects that are made from an experiment's name."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from draftworth.records.deployment import CapacityKind
from draftworth.records.results import RUNS_FOLDER

PROJECT = "draftworth"
EXPERIMENT_TAG = f"{PROJECT}:experiment"
PART_TAG = f"{PROJECT}:part"
# A tag of a bucket with its content, one of `BUCKETS`: its generated name may be cut.
HOLDS_TAG = f"{PROJECT}:holds"
CHECKPOINTS, ARTIFACTS, RESULTS = BUCKETS = ("checkpoints", "artifacts", "results")
# The parts of an experiment's stack, each of which needs those before it; logical ids of the
# resources in a part begin with its name.
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
    """Return a DNS label (RFC 1035) for Services and stacks: `qwen3-1.7b` is `qwen3-1-7b`."""
    return name.replace(".", "-")


def content_hash(value: Any, *, length: int) -> str:
    """Return the first hex digits of the SHA-256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names that are made from the experiment's name."""

    experiment: str

    @property
    def prefix(self) -> str:
        """`draftworth-` and the experiment's name as a DNS label; at most 43 characters."""
        return f"{PROJECT}-{dns_label(self.experiment)}"

    # Fixed names: those of log groups are made from the cluster's name, and the dashboard's
    # address is printed before it exists.
    stack = cluster = dashboard = prefix

    @property
    def pod_logs(self) -> str:
        """The log group into which Container Insights writes the output of every container."""
        return f"/aws/containerinsights/{self.cluster}/application"

    @property
    def assets(self) -> str:
        """The folder, with its `/`, of the stack's files in CDK's asset bucket, of every deploy;
        prompts are among them."""
        return f"{self.prefix}/"

    @property
    def accelerator(self) -> str:
        """The start of accelerator node groups' names, and the name of their launch template.

        The controller has rights on `draftworth-qwen3-32b-accelerator-*`.
        """
        return f"{self.cluster}-accelerator"

    def node_group(self, capacity: CapacityKind) -> str:
        """Return `CLUSTER-accelerator-spot`, at most 61 of EKS's 63 characters.

        It is not generated, because commands need it. It contains the way of buying, because
        CloudFormation cannot replace a node group of the same name.
        """
        return f"{self.accelerator}-{BUYING_NAMES[capacity]}"

    @property
    def stack_tags(self) -> dict[str, str]:
        return {EXPERIMENT_TAG: self.experiment}

    def tags(self, part: str) -> dict[str, str]:
        return {**self.stack_tags, PART_TAG: part}
