"""Observes AWS for a decision: the node group, its instances, and objects in S3.

Other programs write these objects, and no object may stop the function that limits the cost: a part
that cannot be observed is `Unknown`. The invocation fails only if the node group cannot be read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from draftworth.records.controller_state import Deployment
from draftworth.records.deployment import STOP_KEY
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.node_group import NodeGroup, node_group
from lambdas.capacity_controller.observed_run import ObservedRun, run_of
from lambdas.capacity_controller.pod_reports import Canaries, Servers, canaries_of, servers_of
from lambdas.capacity_controller.reserved_block import CapacityBlock, NoCapacityBlock, block_of
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.staged_models import Models, models_of
from lambdas.capacity_controller.unknown import Unknown, or_unknown
from lambdas.s3_document import read_object

_NOT_LOOKED_AT = Unknown(why="not looked at: a limit is reached")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the controller observed before a decision, of models, pods, the run and the nodes.

    stopped: whether the object `control/stop` exists, by which a user keeps the nodes at zero.
    block: the Capacity Block of the plan; None: the plan has none.
    """

    models: Models | Unknown
    canaries: Canaries | Unknown
    servers: Servers | Unknown
    run: ObservedRun | Unknown
    stopped: bool | Unknown
    block: CapacityBlock | NoCapacityBlock | Unknown | None
    nodes: NodeGroup


def observe(
    deployment: Deployment,
    clients: Clients,
    settings: Settings,
    *,
    since: float,
    nodes_alone: bool = False,
) -> Observation:
    """Read from AWS all that `decide` needs to know, and return it.

    nodes_alone: read only the node group, which is enough once the deadline or budget is reached.
    since: failed launches of nodes before this Unix time are ignored.
    """
    plan, deployed = deployment.plan, deployment.deployed_at_unix_s
    s3, bucket, staged = clients.s3, settings.results_bucket, settings.checkpoints_bucket

    def part(observe_part: Callable[[], T]) -> T | Unknown:
        return _NOT_LOOKED_AT if nodes_alone else or_unknown(observe_part)

    return Observation(
        models=part(lambda: models_of(s3, staged, plan, since=deployed)),
        canaries=part(lambda: canaries_of(s3, bucket, plan, since=deployed)),
        servers=part(lambda: servers_of(s3, bucket, plan.servers, since=deployed)),
        run=part(lambda: run_of(s3, bucket, plan.job_name)),
        stopped=part(lambda: read_object(s3, bucket, STOP_KEY) is not None),
        block=None if plan.reservation_id is None else part(lambda: block_of(clients, plan)),
        nodes=node_group(plan, clients, since=since),
    )
