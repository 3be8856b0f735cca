"""Builders of plans and staged models: each test states only what it cares about."""

from __future__ import annotations

from typing import Any

from draftworth.records.capacity import CapacityPlan, DraftRef, ModelRef
from draftworth.records.files import StoredFile
from draftworth.records.results import RunResult
from draftworth.records.staging import ReadyModel
from lambdas.capacity_controller.observation import Models, NodeGroup, Observation, Run
from lambdas.capacity_controller.state import Deployment, NodeTime
from tests.support.blocks import START_UNIX_S, make_run

NOW = START_UNIX_S
MINUTE = 60.0
HOUR = 3600.0
JOB = "llmperf-qwen3-32b-0a1b2c3d"
RUN_ID = f"{JOB}-89abcdef"
TAGS = {"draftworth:experiment": "qwen3-32b", "draftworth:stack": "cluster"}
TARGET = ModelRef(model="Qwen/Qwen3-32B", revision="main")
DRAFT = ModelRef(model="Qwen/Qwen3-1.7B", revision="main")
BLOCK_ID = "cr-0123456789abcdef0"
VOCABULARY = "aa" * 32


def make_plan(**overrides: Any) -> CapacityPlan:
    fields: dict[str, Any] = {
        "experiment": "qwen3-32b",
        "job_name": JOB,
        "cluster_name": "draftworth-qwen3-32b",
        "nodegroup_name": "draftworth-qwen3-32b-accelerator-spot",
        "nodegroup_tags": TAGS,
        "nodes": 1,
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
    }
    return Deployment(**{**fields, **overrides})


def make_nodes(**overrides: Any) -> NodeGroup:
    return NodeGroup(**{"ownership": "ours", "auto_scaling_group": "eks-group", **overrides})


def make_observation(**overrides: Any) -> Observation:
    """An observation in which nothing forbids nodes."""
    fields: dict[str, Any] = {
        "models": Models(staging="ready"),
        "run": Run(state="begun"),
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


def finished_run(run_id: str = RUN_ID, **overrides: Any) -> RunResult:
    return make_run(run_id=run_id, **overrides)
