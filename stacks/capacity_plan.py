"""The capacity controller's plan of an experiment."""

from collections.abc import Iterator

from charts.names import server_name
from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.catalog import catalog
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.deployment import CapacityPlan, DraftRef, ModelRef
from draftworth.records.servers import START_ALLOWANCE_MINUTES


def capacity_plan(experiment: ResolvedNeuron, *, job_name: str) -> CapacityPlan:
    """Return when and how many accelerator nodes may exist for this experiment's Job."""
    aws, names = experiment.spec.aws, experiment.names
    capacity = aws.capacity
    return CapacityPlan(
        experiment=experiment.name,
        job_name=job_name,
        cluster_name=names.cluster,
        nodegroup_name=names.node_group(capacity.kind),
        nodegroup_tags=names.tags("cluster"),
        nodes=experiment.placement.nodes,
        variants=tuple(variant.name for variant in experiment.canaries),
        servers=tuple(_needed_servers(experiment)),
        startup_minutes=START_ALLOWANCE_MINUTES,
        target=_reference(experiment.spec.target),
        drafts=tuple(dict.fromkeys(_drafts(experiment))),
        deadline_minutes=aws.deadline_minutes,
        budget_usd=aws.budget_usd,
        price_usd_per_node_hour=experiment.node_price.usd_per_hour,
        price_as_of=experiment.node_price.as_of.isoformat(),
        capacity=capacity.kind,
        reservation_id=(capacity.reservation_id if isinstance(capacity, CapacityBlock) else None),
        availability_zone=aws.availability_zone,
        instance_type=experiment.spec.instance_type,
    )


def _needed_servers(experiment: ResolvedNeuron) -> Iterator[str]:
    """Yield the servers without which the run ends; in a search only the baseline's.

    A candidate that is given up is an answer about it, and the next one takes its slot.
    """
    for variant in experiment.variants:
        if variant.is_baseline or experiment.spec.search is None:
            yield from map(server_name, variant.slots)


def _reference(model: HubModel) -> ModelRef:
    return ModelRef(model=model.model, revision=model.revision)


def _drafts(experiment: ResolvedNeuron) -> Iterator[DraftRef]:
    for variant in experiment.variants:
        if draft := variant.checkpoints.get("draft"):
            method = catalog().methods[variant.spec.method]
            yield DraftRef(checkpoint=_reference(draft), vocabulary=method.tokenizer)
