"""CPU nodes that compile graphs: how many are desired, and how long the accelerators wait. No AWS.

Nobody depends on them: what does not come of them in time, servers compile by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from lambdas.capacity_controller.observation import (
    CompileNodes,
    Observation,
    PendingGraph,
    Unknown,
)
from lambdas.capacity_controller.state import Deployment

# While the accelerator nodes' decision has one of these reasons, what is compiled is of use.
WORTH_IT = {
    "waiting_for_models",
    "waiting_for_canary",
    "canary_failed",
    "waiting_for_graphs",
    "block_not_started",
    "ready",
}


def compile_size(deployment: Deployment, observation: Observation, *, now: float) -> int | None:
    """How many nodes must compile, while that is of use; None: as many as there are, or there is
    no such group."""
    compiling = observation.compiling
    if not isinstance(compiling, CompileNodes):
        return None
    needed = sum(1 for _ in in_time(deployment, compiling, now))
    # Fewer, but not none: Auto Scaling chooses which node goes, and may take one that still
    # compiles. An idle one costs a few dollars an hour, and takes the next Job.
    return max(needed, compiling.desired_size or 0) if needed else 0


def waited_for(deployment: Deployment, observation: Observation, now: float) -> list[str]:
    """Jobs that the accelerator nodes wait for; none once they have taken their time.

    Nor in a Capacity Block that has begun: its nodes are paid for and may as well compile.
    """
    compiling = observation.compiling
    if not isinstance(compiling, CompileNodes) or deployment.plan.reservation_id:
        return []
    return [g.job_name for g in in_time(deployment, compiling, now) if g.certain]


def is_unknown(deployment: Deployment, observation: Observation, now: float) -> Unknown | None:
    """Whether there is something to wait for, of which nothing could be learnt at this moment."""
    plan, compiling = deployment.plan.compiling, observation.compiling
    if plan is None or not isinstance(compiling, Unknown):
        return None
    waiting = now < deployment.deployed_at_unix_s + 60 * plan.wait_minutes
    return compiling if waiting and not observation.nodes.desired_size else None


def in_time(deployment: Deployment, compiling: CompileNodes, now: float) -> Iterator[PendingGraph]:
    """Graphs that somebody needs, and whose Jobs have not had their time yet."""
    plan = deployment.plan.compiling
    if plan is None:
        return
    for graph in compiling.pending:
        # A time that is to come, as of another's clock, counts from now.
        if graph.since_unix_s is not None:
            since = max(graph.since_unix_s, deployment.deployed_at_unix_s)
            if now - min(since, now) < 60 * plan.wait_minutes:
                yield graph
