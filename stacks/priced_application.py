"""The application at the experiment's price, with the notes of `plan` as warnings.

Without a price it can only be destroyed.
"""

from datetime import UTC, datetime

from aws_cdk import Annotations, Stack
from constructs import Construct

from draftworth.cli.plan_notes import notes
from draftworth.planning.prices import with_prohibitive_price
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import forecast
from stacks.application import build_application


def build_priced_application(scope: Construct, *, experiment: ResolvedNeuron) -> None:
    """Add the stack to the CDK app.

    An annotation of level error stops `cdk synth` and `cdk deploy`, and lets `cdk destroy` pass
    (CDK CLI 2.1148.1): what was deployed must go also where its price is not known any more.
    """
    if experiment.spec.aws.price is not None:
        _warn(build_application(scope, experiment=experiment), experiment)
        return
    stack = build_application(scope, experiment=with_prohibitive_price(experiment))
    message = (
        "aws.price is left out and none has been looked up: the budget cannot be kept without one; "
        f"next: python -m draftworth price {experiment.path}"
    )
    Annotations.of(stack).add_error(message)
    _warn(stack, experiment)


def _warn(stack: Stack, experiment: ResolvedNeuron) -> None:
    """Show the notes of `plan` at `cdk deploy` too; only `--strict` stops at them."""
    for note in notes(experiment, run=forecast(experiment), today=datetime.now(UTC).date()):
        Annotations.of(stack).add_warning(note)
