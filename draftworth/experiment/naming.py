"""Derives the names of AWS and Kubernetes objects from an experiment's name."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from draftworth.records.deployment import CapacityKind
from draftworth.records.results import RUNS_FOLDER

PROJECT = "draftworth"
EXPERIMENT_TAG = f"{PROJECT}:experiment"
PART_TAG = f"{PROJECT}:part"
# A tag of every bucket. Its value, one of `BUCKETS`, says what the bucket holds: the bucket's name
# does not always show that, because CloudFormation may cut the name off.
HOLDS_TAG = f"{PROJECT}:holds"
CHECKPOINTS, ARTIFACTS, RESULTS = BUCKETS = ("checkpoints", "artifacts", "results")
# The parts of an experiment's stack; each part needs the parts before it. The logical id of a
# resource begins with the name of its part.
PARTS = ("network", "storage", "cluster", "benchmark")

# The part of a node group's name that says how its nodes are bought.
BUYING_NAMES = {"on_demand": "od", "spot": "spot", "capacity_block": "block"}

# Outputs of the stack that commands look up; each value is `s3://BUCKET/`.
CHECKPOINTS_OUTPUT = "CheckpointsLocation"
ARTIFACTS_OUTPUT = "ArtifactsLocation"
RESULTS_OUTPUT = "ResultsLocation"

# The folder of all runs in the results bucket. Next to it in the bucket are
# the folders `results.CLAIMS_FOLDER` and `servers.CONTROL_PREFIX`.
RUNS_PREFIX = f"{RUNS_FOLDER}/"


def dns_label(name: str) -> str:
    """Return an experiment's or variant's name as a DNS label (RFC 1035): dots become hyphens."""
    return name.replace(".", "-")


def content_hash(value: Any, *, length: int) -> str:
    """Return the first `length` hex digits of the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of an experiment's AWS and Kubernetes objects, all made from its own name."""

    experiment: str

    @property
    def prefix(self) -> str:
        """`draftworth-` and the experiment's name as a DNS label; at most 43 characters."""
        return f"{PROJECT}-{dns_label(self.experiment)}"

    # CloudFormation does not generate these names, because they must be known before a deploy: log
    # groups' names contain the cluster's, and the dashboard's address is printed early.
    stack = cluster = dashboard = prefix

    @property
    def pod_logs(self) -> str:
        """The log group into which Container Insights writes the output of every container."""
        return f"/aws/containerinsights/{self.cluster}/application"

    @property
    def assets(self) -> str:
        """The experiment's folder in CDK's asset bucket, with a `/` at its end.

        Deploys upload the experiment's files, such as its prompts, into it.
        """
        return f"{self.prefix}/"

    @property
    def accelerator(self) -> str:
        """The prefix of accelerator node groups' names, and the name of their launch template.

        IAM lets the capacity controller change no node groups but `CLUSTER-accelerator-*`.
        """
        return f"{self.cluster}-accelerator"

    def node_group(self, capacity: CapacityKind) -> str:
        """Return the name of the accelerator node group, such as `CLUSTER-accelerator-spot`.

        It has at most 61 characters; EKS allows 63. CloudFormation does not generate it, because
        commands must be able to compute it. It contains the capacity kind, because CloudFormation
        cannot replace a node group by another one with the same name.
        """
        return f"{self.accelerator}-{BUYING_NAMES[capacity]}"

    @property
    def stack_tags(self) -> dict[str, str]:
        return {EXPERIMENT_TAG: self.experiment}

    def tags(self, part: str) -> dict[str, str]:
        return {**self.stack_tags, PART_TAG: part}
