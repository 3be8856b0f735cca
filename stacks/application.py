"""The stack of an experiment has four parts: network, storage, cluster and benchmark.

It is one stack, because `cdk deploy` and `cdk destroy` fail in an app with several stacks unless
the user names one (docs/decisions/0009-plain-cdk.md).
"""

from datetime import UTC, datetime
from typing import cast

from aws_cdk import (
    Annotations,
    Aspects,
    CfnOutput,
    DefaultStackSynthesizer,
    Environment,
    IAspect,
    Stack,
    Tags,
)
from constructs import Construct, IConstruct

from draftworth.planning.notes import notes
from draftworth.planning.prices import with_prohibitive_price
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import forecast
from stacks.aspects import PART_OF_WHAT_CDK_ADDS, OwnedFunctionLogs, RawResourceTags
from stacks.base import StackPart, stands_on
from stacks.benchmark import Benchmark
from stacks.cluster import Cluster
from stacks.network import Network
from stacks.storage import Storage


def build_application(
    scope: Construct, *, experiment: ResolvedNeuron, now: datetime | None = None
) -> Stack:
    """Add the experiment's stack to the CDK app, and return the stack.

    now: the time from which the backstop of the nodes counts; None: the machine's.
    """
    names = experiment.names
    stack = Stack(
        scope,
        names.stack,
        stack_name=names.stack,
        description=f"draftworth {experiment.name}",
        env=Environment(region=experiment.spec.aws.region),
        # At deployment CloudFormation adds these tags to all resources of the stack, also to those
        # that have none in the template.
        tags=names.stack_tags,
        # CDK's assets bucket keeps every file of every deploy. With a prefix for this experiment a
        # user can find and delete its uploads, which hold earlier prompts too.
        synthesizer=DefaultStackSynthesizer(bucket_prefix=names.assets),
        # This makes the template an eighth smaller; with a search it is near the limit of 1 MB.
        suppress_template_indentation=experiment.spec.search is not None,
    )
    network = Network(stack, "network", experiment=experiment)
    storage = Storage(stack, "storage", experiment=experiment)
    cluster = Cluster(stack, "cluster", experiment=experiment, network=network)
    benchmark = Benchmark(
        stack,
        "benchmark",
        experiment=experiment,
        cluster=cluster,
        storage=storage,
        synthesized_at=now or datetime.now(UTC),
    )
    stands_on(cluster, network)
    stands_on(benchmark, cluster, storage)
    # Each of the four parts has tags of its own, which replace these on its resources.
    for key, value in names.tags(PART_OF_WHAT_CDK_ADDS).items():
        Tags.of(stack).add(key, value)
    for construct in (*_added_by_cdk(stack), cluster.cluster):
        for aspect in (RawResourceTags(names), OwnedFunctionLogs()):
            Aspects.of(construct).add(cast(IAspect, aspect))
    return stack


def _added_by_cdk(stack: Stack) -> list[IConstruct]:
    """Return the constructs directly below the stack that are neither a part of it nor an output.

    Only these need CDK aspects: resources in the stack's parts have log groups and tags already.
    Each visit of an aspect is a call from Node.js, and visiting all took a tenth of a synthesis.
    """
    return [c for c in stack.node.children if not isinstance(c, StackPart | CfnOutput)]


def build_priced_application(scope: Construct, *, experiment: ResolvedNeuron) -> None:
    """Add the stack with the experiment's price; show the notes of the command `plan` as warnings.

    If the price is not known, the stack can only be destroyed: an annotation of level error stops
    `cdk synth` and `cdk deploy`, but not `cdk destroy` (CDK CLI 2.1148.1). A deployed stack must be
    destroyable even after its price is no longer known.
    """
    if experiment.spec.aws.price is not None:
        stack = build_application(scope, experiment=experiment)
    else:
        stack = build_application(scope, experiment=with_prohibitive_price(experiment))
        Annotations.of(stack).add_error(
            "aws.price is left out and none has been looked up: the budget cannot be kept without "
            f"one; next: draftworth price {experiment.path}"
        )
    # `cdk deploy` shows warnings too, but they stop it only with `--strict`.
    for note in notes(experiment, run=forecast(experiment), today=datetime.now(UTC).date()):
        Annotations.of(stack).add_warning(note.sentence)
