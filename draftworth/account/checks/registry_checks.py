"""The checks that registries have what a deploy and its nodes pull; no AWS credentials are needed.

Nodes pull an image when the first pod needs it. The serving image is needed on accelerator nodes
alone, so without this check a missing one would be noticed while a node is paid for.
"""

from draftworth.account.checks import check
from draftworth.experiment import aws
from draftworth.image_registry import NoSuchImageError, UnansweredError, digest_of


def neuron_chart(_: check.Situation) -> check.CheckResult:
    """Check that the registry has the Neuron driver's Helm chart."""
    name = f"{aws.NEURON_CHART_REGISTRY}/{aws.NEURON_CHART}:{aws.NEURON_CHART_VERSION}"
    copy = "deploy a copy with `-c neuron-chart=FOLDER` (docs/decisions/0012-instance-types.md)"
    try:
        digest = digest_of(name)
    except NoSuchImageError as error:
        return check.failed(str(error), copy)
    except UnansweredError as error:
        return check.warned(str(error), copy)
    return check.passed(f"a deploy pulls {name} by its tag; today it is {digest}")


def images(situation: check.Situation) -> check.CheckResult:
    """Check that the registries have the serving image and the measuring Job's, if it is named.

    If the serving image is not pinned, its digest is offered as a pin.
    """
    spec = situation.experiment.spec
    try:
        serving = digest_of(spec.image)
        if spec.aws.load_generator_image:
            digest_of(spec.aws.load_generator_image)
    except NoSuchImageError as error:
        return check.failed(
            str(error),
            "choose another `release`, or correct aws.pins.serving_image_digest or "
            "aws.load_generator_image",
        )
    except UnansweredError as error:
        return check.warned(
            str(error), "ask the registry with credentials: `docker manifest inspect IMAGE`"
        )
    if spec.aws.pins.serving_image_digest:
        return check.passed(f"pinned to {spec.image}")
    paste = {"pins": {"serving_image_digest": serving}} if serving.startswith("sha256:") else {}
    return check.passed(f"nodes pull {spec.image} by its tag; today it is {serving}", paste=paste)
