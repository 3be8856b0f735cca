"""The capacity controller's plan of an experiment."""

from __future__ import annotations

from draftworth.experiment.model import CapacityBlock, HubModel, HubSpeculative, NeuronExperiment
from draftworth.experiment.naming import Names
from draftworth.experiment.placement import place
from draftworth.records.capacity import CapacityPlan, DraftRef, ModelRef
from stacks.constructs.accelerator_nodes import node_group_name

# EAGLE heads are trained on the target's token ids and often published without a tokenizer.
HEAD_METHODS = ("eagle", "eagle3")


def capacity_plan(experiment: NeuronExperiment, *, job_name: str) -> CapacityPlan:
    """When the accelerator nodes of this experiment's Job may exist, and how many."""
    aws, names = experiment.aws, Names.of(experiment)
    capacity = aws.capacity
    drafts = [v for v in experiment.variants if isinstance(v, HubSpeculative)]
    return CapacityPlan(
        experiment=experiment.name,
        job_name=job_name,
        cluster_name=names.cluster,
        nodegroup_name=node_group_name(names.cluster, capacity.kind),
        nodegroup_tags=names.tags("cluster"),
        nodes=place(experiment).nodes,
        target=_reference(experiment.target),
        drafts=tuple(dict.fromkeys(_draft(variant) for variant in drafts)),
        deadline_minutes=aws.deadline_minutes,
        budget_usd=aws.budget_usd,
        price_usd_per_node_hour=aws.price.usd_per_hour,
        price_as_of=aws.price.as_of.isoformat(),
        capacity=capacity.kind,
        reservation_id=(capacity.reservation_id if isinstance(capacity, CapacityBlock) else None),
        availability_zone=aws.availability_zone,
        instance_type=experiment.instance_type,
    )


def _reference(model: HubModel) -> ModelRef:
    return ModelRef(model=model.model, revision=model.revision)


def _draft(variant: HubSpeculative) -> DraftRef:
    head = variant.method in HEAD_METHODS
    return DraftRef(
        checkpoint=_reference(variant.draft), vocabulary="own_or_none" if head else "own"
    )
