"""The application at the experiment's price; without one, such as can only be destroyed."""

from __future__ import annotations

from aws_cdk import Annotations
from constructs import Construct

from draftworth.planning.looked_up_price import with_prohibitive_price
from draftworth.planning.resolved import ResolvedNeuron
from stacks.application import build_application


def build_priced_application(scope: Construct, *, experiment: ResolvedNeuron) -> None:
    """Add the stack to the CDK app.

    An annotation of level error stops `cdk synth` and `cdk deploy`, and lets `cdk destroy` pass
    (CDK CLI 2.1148.1): what was deployed must go also where its price is not known any more.
    """
    if experiment.spec.aws.price is not None:
        build_application(scope, experiment=experiment)
        return
    stack = build_application(scope, experiment=with_prohibitive_price(experiment))
    message = (
        "aws.price is left out and none has been looked up: the budget cannot be kept without one; "
        f"next: python -m draftworth price {experiment.path}"
    )
    Annotations.of(stack).add_error(message)
