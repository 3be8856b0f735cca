"""An experiment's stack: four parts in one, in the order in which they need each other.

One stack, because `cdk deploy` and `cdk destroy` without a name take no app that has several
(docs/decisions/0009-plain-cdk.md).
"""

from datetime import UTC, datetime

from aws_cdk import Annotations, DefaultStackSynthesizer, Environment, Stack
from constructs import Construct

from draftworth.cli.plan_notes import notes
from draftworth.planning.prices import with_prohibitive_price
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import forecast
from stacks.base import stands_on
from stacks.benchmark import Benchmark
from stacks.cluster import Cluster
from stacks.network import Network
from stacks.storage import Storage


def build_application(scope: Construct, *, experiment: ResolvedNeuron) -> Stack:
    """Add the experiment's stack to the CDK app."""
    names = experiment.names
    stack = Stack(
        scope,
        names.stack,
        stack_name=names.stack,
        description=f"draftworth {experiment.name}",
        env=Environment(region=experiment.spec.aws.region),
        # CloudFormation hands a stack's own tags on at deployment, also to resources that CDK
        # writes without tags; tags in the template can be seen before.
        tags=names.stack_tags,
        # CDK's bucket keeps every file of every deploy. In a folder of its own this experiment's
        # uploads, earlier prompts too, can be found and deleted.
        synthesizer=DefaultStackSynthesizer(bucket_prefix=names.assets),
        # An eighth of a template; CloudFormation takes 1 MB, and a search comes near to it.
        suppress_template_indentation=experiment.spec.search is not None,
    )
    network = Network(stack, experiment=experiment)
    storage = Storage(stack, experiment=experiment)
    cluster = Cluster(stack, experiment=experiment, network=network)
    benchmark = Benchmark(stack, experiment=experiment, cluster=cluster, storage=storage)
    stands_on(cluster, network)
    stands_on(benchmark, cluster, storage)
    return stack


def build_priced_application(scope: Construct, *, experiment: ResolvedNeuron) -> None:
    """Add the stack at the experiment's price, with the notes of `plan` as warnings.

    Without a price it can only be destroyed: an annotation of level error stops `cdk synth` and
    `cdk deploy`, and lets `cdk destroy` pass (CDK CLI 2.1148.1), because what was deployed must go
    also where its price is not known any more.
    """
    if experiment.spec.aws.price is not None:
        stack = build_application(scope, experiment=experiment)
    else:
        stack = build_application(scope, experiment=with_prohibitive_price(experiment))
        Annotations.of(stack).add_error(
            "aws.price is left out and none has been looked up: the budget cannot be kept without "
            f"one; next: python -m draftworth price {experiment.path}"
        )
    # `cdk deploy` shows warnings too; only `--strict` stops at them.
    for note in notes(experiment, run=forecast(experiment), today=datetime.now(UTC).date()):
        Annotations.of(stack).add_warning(note)
