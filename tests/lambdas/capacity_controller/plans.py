"""Builders of plans and staged models: each test states only what it cares about."""

from typing import Any

from draftworth.records.checkpoints import FailedModel, ReadyModel, StoredFile
from draftworth.records.controller_state import Deployment, NodeTime, ServerWait
from draftworth.records.deployment import CanaryReport, CapacityPlan, DraftRef, ModelRef
from draftworth.records.findings import Finding, Verdict
from draftworth.records.judgement import Judgement
from draftworth.records.results import RunResult
from draftworth.records.servers import ServerState
from lambdas.capacity_controller.node_group import NodeGroup
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.observed_run import ObservedRun
from lambdas.capacity_controller.pod_reports import Canaries, Servers
from lambdas.capacity_controller.staged_models import Models
from tests.support.blocks import START_UNIX_S, make_run

NOW = START_UNIX_S
MINUTE = 60.0
HOUR = 3600.0
JOB = "llmperf-qwen3-32b-0a1b2c3d"
OTHER_JOB = "llmperf-qwen3-32b-11112222"
HELD_JOB = "llmperf-qwen3-32b-33334444"
RUN_ID = f"{JOB}-89abcdef"
TAGS = {"draftworth:experiment": "qwen3-32b", "draftworth:stack": "cluster"}
TARGET = ModelRef(model="Qwen/Qwen3-32B", revision="main")
DRAFT = ModelRef(model="Qwen/Qwen3-1.7B", revision="main")
BLOCK_ID = "cr-0123456789abcdef0"
VARIANTS = ("baseline", "qwen3-1.7b-k7")
# Each variant has two servers, one per slot; one of the two is stopped while the other runs.
SERVERS = (
    "vllm-baseline",
    "slot1-vllm-baseline",
    "vllm-qwen3-1-7b-k7",
    "slot0-vllm-qwen3-1-7b-k7",
)
VOCABULARY = "aa" * 32


def make_plan(**overrides: Any) -> CapacityPlan:
    fields: dict[str, Any] = {
        "experiment": "qwen3-32b",
        "job_name": JOB,
        "cluster_name": "draftworth-qwen3-32b",
        "nodegroup_name": "draftworth-qwen3-32b-accelerator-spot",
        "nodegroup_tags": TAGS,
        "nodes": 1,
        "variants": VARIANTS,
        "servers": SERVERS,
        "startup_minutes": 130,
        "target": TARGET,
        "drafts": (DraftRef(checkpoint=DRAFT, vocabulary="own"),),
        "deadline_minutes": 240,
        "budget_usd": 60.0,
        "price_usd_per_node_hour": 10.0,
        "price_as_of": "2026-03-15",
        "capacity": "spot",
        "reservation_id": None,
        "availability_zone": "us-east-2c",
        "instance_type": "trn2.48xlarge",
    }
    return CapacityPlan(**{**fields, **overrides})


def make_block_plan(**overrides: Any) -> CapacityPlan:
    return make_plan(**{"capacity": "capacity_block", "reservation_id": BLOCK_ID, **overrides})


def make_deployment(plan: CapacityPlan | None = None, **overrides: Any) -> Deployment:
    fields: dict[str, Any] = {
        "plan": plan or make_plan(),
        "deployed_at_unix_s": NOW,
        "node_time": NodeTime(node_seconds=0.0, instances=0, observed_at_unix_s=NOW),
        "servers": ServerWait(nodes_since_unix_s=NOW),
    }
    return Deployment(**{**fields, **overrides})


def make_nodes(**overrides: Any) -> NodeGroup:
    return NodeGroup(**{"ownership": "ours", "auto_scaling_group": "eks-group", **overrides})


def make_observation(**overrides: Any) -> Observation:
    """Return an observation in which nothing forbids nodes."""
    fields: dict[str, Any] = {
        "models": Models(staging="ready"),
        "canaries": Canaries(state="ok"),
        "servers": Servers(),
        "run": ObservedRun(state="begun"),
        "stopped": False,
        "block": None,
        "nodes": make_nodes(),
    }
    return Observation(**{**fields, **overrides})


def make_ready(model: ModelRef, *, vocabulary: str | None = VOCABULARY) -> ReadyModel:
    return ReadyModel(
        model=model.model,
        revision=model.revision,
        commit="c" * 40,
        files=(StoredFile(path="config.json", size_bytes=3, sha256="0" * 64),),
        tokenizer_fingerprint=vocabulary,
        staged_at_unix_s=NOW,
        staging_seconds=60.0,
    )


def make_report(job_name: str = JOB, variant: str = VARIANTS[0], **overrides: Any) -> CanaryReport:
    fields: dict[str, Any] = {"ok": True, "text": "all is well", "reported_at_unix_s": NOW}
    return CanaryReport(job_name=job_name, variant=variant, **{**fields, **overrides})


def make_server(variant: str = VARIANTS[0], **overrides: Any) -> ServerState:
    fields: dict[str, Any] = {
        "server": SERVERS[2 * VARIANTS.index(variant)],
        "pod": f"vllm-{variant}-1",
        "start": 1,
        "phase": "healthy",
        "since_unix_s": NOW,
    }
    return ServerState(variant=variant, **{**fields, **overrides})


def make_server_given_up(variant: str = VARIANTS[0], **overrides: Any) -> ServerState:
    fields: dict[str, Any] = {
        "start": 3,
        "phase": "given_up",
        "exit_code": 1,
        "last_lines": ("Traceback (most recent call last):", "RuntimeError: no devices"),
        "reason": "3 starts without health",
    }
    return make_server(variant, **{**fields, **overrides})


def make_failed_model(model: ModelRef = TARGET, **overrides: Any) -> FailedModel:
    fields: dict[str, Any] = {"reason": "no such revision", "failed_at_unix_s": NOW}
    return FailedModel(model=model.model, revision=model.revision, **{**fields, **overrides})


def finished_run(run_id: str = RUN_ID, **overrides: Any) -> RunResult:
    return make_run(run_id=run_id, **overrides)


def make_verdict(run_id: str = RUN_ID, **overrides: Any) -> Verdict:
    finding = Finding(
        traffic="traffic mix",
        load="c4",
        variant=VARIANTS[1],
        baseline=VARIANTS[0],
        judgement=Judgement.CHEAPER,
        cost_ratio=0.62,
        cost_ratio_low=0.59,
        cost_ratio_high=0.65,
        sentence="traffic mix at c4: cheaper per token; a token costs at least 35% less. Two "
        "servers without speculation: -2.1% to +1.9%, which the verdict clears.",
        noise_floor_low=0.979,
        noise_floor_high=1.019,
        clears_noise_floor=True,
    )
    fields: dict[str, Any] = {
        "experiment": "qwen3-32b",
        "headline": "Speculation pays: traffic mix at c4: a token costs at least 35% less.",
        "findings": (finding,),
        "notes": ("structured at c4: look at where the outputs differ.",),
    }
    return Verdict(run_id=run_id, **{**fields, **overrides})
