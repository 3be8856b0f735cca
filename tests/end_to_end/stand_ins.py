"""What the controller is told by canaries and start wrappers, where the real ones take too long.

The records are its own; the stand-ins put them where it would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from charts.names import service_name
from draftworth.records.codec import dump_record
from draftworth.records.deployment import CanaryReport, canary_key
from draftworth.records.servers import ServerPhase, ServerState, server_state_key

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Environment


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
            server=service_name(self.variant),
            variant=self.variant,
            pod=f"vllm-{self.variant}-1",
            start=max(self.start, 1),
            phase=phase,
            since_unix_s=self.env.cloud.now_unix_s,
            **more,
        )
        self.env.put("results", {server_state_key(state.server): dump_record(state)})
        self.env.cloud.events()


def wrappers(env: Environment) -> list[Wrapper]:
    """One a variant."""
    return [Wrapper(env=env, variant=variant) for variant in env.ports]


def reports_of_canaries(env: Environment) -> None:
    """Every variant's canary says that all is well."""
    for variant in env.experiment.canaries:
        report = CanaryReport(
            job_name=env.job_name,
            variant=variant.name,
            ok=True,
            text="",
            last_lines=(),
            reported_at_unix_s=env.cloud.now_unix_s,
        )
        env.put("results", {canary_key(env.job_name, variant.name): dump_record(report)})
    env.cloud.events()
