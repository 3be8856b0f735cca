"""What the controller is told by programs that run on nodes, at the scenario's own time.

The records are the programs' own; the stand-ins put them where the programs would. A scenario's
clock is moved by hand, a program's is the machine's: where the real program writes a record, its
times are moved to the scenario's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from draftworth.records.canary import CanaryReport, canary_key
from draftworth.records.codec import dump_record, load_record
from draftworth.records.server_state import ServerPhase, ServerState, server_state_key
from draftworth.records.staging import FailedModel, failed_key
from lambdas.capacity_controller.state import Deployment, State

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Environment


def ledger(env: Environment) -> Deployment:
    """What the controller knows of the deployed Job's nodes and money."""
    deployment = load_record(State, env.get("results", "control/capacity.json")).deployment
    assert deployment is not None
    return deployment


def paid_minutes(env: Environment) -> float:
    """Node minutes, by the ledger."""
    return ledger(env).node_time.node_seconds / 60


def report_canaries(
    env: Environment, *, ok: bool = True, text: str = "all is well", lines: Sequence[str] = ()
) -> None:
    """Every variant's canary has run for the deployed Job."""
    for variant in env.ports:
        report = CanaryReport(
            job_name=env.job_name,
            variant=variant,
            ok=ok,
            text=text,
            last_lines=tuple(lines),
            reported_at_unix_s=env.cloud.now_unix_s,
        )
        env.put("results", {canary_key(env.job_name, variant): dump_record(report)})
    env.cloud.events()


def give_up_staging(env: Environment, model: str, reason: str) -> None:
    """A staging Job has failed for good."""
    failed = FailedModel(
        model=model, revision="main", reason=reason, failed_at_unix_s=env.cloud.now_unix_s
    )
    env.put("checkpoints", {failed_key(model, "main"): dump_record(failed)})
    env.cloud.events()


@dataclass(kw_only=True)
class Wrapper:
    """A variant's start wrapper, as its records tell of it."""

    env: Environment
    variant: str
    start: int = 0

    def says(self, phase: ServerPhase, **more: Any) -> None:
        """One change; a new start counts on."""
        self.start += phase == "starting"
        state = ServerState(
            variant=self.variant,
            pod=f"vllm-{self.variant}-1",
            start=max(self.start, 1),
            phase=phase,
            since_unix_s=self.env.cloud.now_unix_s,
            **more,
        )
        self.env.put("results", {server_state_key(self.variant): dump_record(state)})
        self.env.cloud.events()


def wrappers(env: Environment) -> list[Wrapper]:
    """One a variant."""
    return [Wrapper(env=env, variant=variant) for variant in env.ports]
