"""Records that the programs of one deployment exchange: the capacity plan and the canary's report.

A canary is a Job on a CPU node that tries, before any accelerator exists, the first steps of a
variant's server, with the same volumes and service account. The capacity plan is JSON text in a
property of a CloudFormation custom resource, because CloudFormation turns numbers into text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from draftworth.records.codec import Between, Checked
from draftworth.records.servers import CONTROL_PREFIX

CANARIES_FOLDER = f"{CONTROL_PREFIX}canary/"


@dataclass(frozen=True, kw_only=True)
class CanaryReport:
    """`control/canary/JOB/VARIANT.json`: how the last try of one variant's canary went.

    A canary is a Job that tries the first steps of the variant's server on a CPU node. One more
    tries those of the measuring Job; its `variant` is `PATHS`.
    job_name: the measuring Job of the deploy that the canary belongs to.
    ok: the canary has read and reached all that it tries.
    text: the steps that succeeded, or the error and the next step.
    last_lines: the last lines of the canary's log (at most `servers.LAST_LINES`), newest last.
    """

    schema: str = "draftworth.canary/1"
    job_name: str
    variant: str
    ok: bool
    text: str
    last_lines: tuple[str, ...] = ()
    reported_at_unix_s: float


# The name, in place of a variant's, of the canary that tries what the measuring Job must reach. No
# variant can have it, because a variant's name has no underscore.
PATHS = "measuring_job"


def canary_key(job_name: str, variant: str) -> str:
    """Return the object key of the report (`CanaryReport`) of one variant's canary.

    job_name: the measuring Job of the same deploy. variant: the variant's name, or `PATHS`.
    """
    return f"{CANARIES_FOLDER}{job_name}/{variant}.json"


# The capacity controller's state: deployments, their cost and the last decision.
STATE_KEY = f"{CONTROL_PREFIX}capacity.json"
# This object names the unreadable state that was reported by mail, so that there is only one mail.
UNREADABLE_STATE_KEY = f"{CONTROL_PREFIX}unreadable-state.txt"
# While an object of this name exists, the accelerator nodes stay at zero.
STOP_KEY = f"{CONTROL_PREFIX}stop"

# How often the capacity controller is invoked: a month of its invocations costs less than a minute
# of accelerator time.
HEARTBEAT_MINUTES = 2
# The name of the EventBridge schedule that invokes the controller at the deadline.
DEADLINE_SCHEDULE = "deadline"

# EKS scales a node group down 40 minutes before its Capacity Block ends; EC2 ends instances from 30
# minutes before ("Create a managed node group with Capacity Blocks for ML", Amazon EKS User Guide).
BLOCK_MARGIN_SECONDS = 40 * 60

# A longer deadline has no use: a run takes hours, and a week of a node costs thousands of dollars.
MAX_DEADLINE_MINUTES = 7 * 24 * 60

# `own`: the draft must have a tokenizer, which must equal the target's. `own_or_none`: it may also
# have no tokenizer.
DraftTokenizer = Literal["own", "own_or_none"]
CapacityKind = Literal["on_demand", "spot", "capacity_block"]


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """A checkpoint: its Hugging Face id and revision, as the experiment names them."""

    model: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class DraftRef:
    """A draft model or EAGLE head.

    vocabulary: which tokenizer its checkpoint must have: with `own`, one that equals the target's;
        with `own_or_none`, such a tokenizer or none.
    """

    checkpoint: ModelRef
    vocabulary: DraftTokenizer


@dataclass(frozen=True, kw_only=True)
class CapacityPlan(Checked):
    """The number of accelerator nodes of one deployment, and the limits of their lifetime.

    job_name: the measuring Job; the keys of its runs begin with `runs/JOB_NAME-`. A new name is a
        new deployment with its own deadline and its own cost.
    nodes: accelerator nodes that the placement needs.
    variants: names of the variants that have a canary, a Job that tries the first steps of the
        variant's server on a CPU node before accelerator nodes start; and `PATHS`.
    servers: names of the servers that the run needs; not all of them run at the same time.
    startup_minutes: how long a node may be billed while no server is ready.
    nodegroup_tags: tags by which the controller recognizes its own node group.
    deadline_minutes: minutes from the deployment of this Job until its nodes are removed.
    reservation_id: id of the Capacity Block; None for other kinds of capacity.
    hold: models are staged and canaries run, but no node starts.
    """

    schema: str = "draftworth.capacity-plan/5"
    experiment: str
    job_name: str
    cluster_name: str
    nodegroup_name: str
    nodegroup_tags: Mapping[str, str]
    nodes: Annotated[int, Between(1)]
    variants: tuple[str, ...]
    servers: tuple[str, ...]
    startup_minutes: Annotated[int, Between(1)]
    target: ModelRef
    drafts: tuple[DraftRef, ...]
    deadline_minutes: Annotated[int, Between(1, MAX_DEADLINE_MINUTES)]
    budget_usd: Annotated[float, Between(1e-6)]
    price_usd_per_node_hour: Annotated[float, Between(1e-6)]
    price_as_of: str
    capacity: CapacityKind
    reservation_id: str | None
    availability_zone: str
    instance_type: str
    hold: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.variants or not self.servers:
            raise ValueError("variants, servers: given an empty list, allowed: one or more")

    @property
    def models(self) -> tuple[ModelRef, ...]:
        return tuple(dict.fromkeys((self.target, *(draft.checkpoint for draft in self.drafts))))


def size_command(*, region: str, cluster: str, nodegroup: str, size: int) -> str:
    """Return the AWS CLI command with which a user sets a node group to `size` nodes."""
    return (
        f"aws eks update-nodegroup-config --region {region} --cluster-name {cluster} "
        f"--nodegroup-name {nodegroup} "
        f"--scaling-config minSize=0,maxSize={max(size, 1)},desiredSize={size}"
    )
