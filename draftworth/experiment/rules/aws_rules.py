"""Rules of the AWS section: zones, price, access, secrets, versions, images."""

import ipaddress
import re
from collections.abc import Iterator

from draftworth.errors import Problem, suggestion
from draftworth.experiment.aws import ADD_ONS, S3_ADD_ON
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.rules.registry import neuron_rule
from draftworth.experiment.strict_model import PATTERN_WORDS, PATTERNS

PINNED_IMAGE_WORDS = (
    "an image with a tag other than latest, or with a digest (NAME@sha256: and 64 hex digits)"
)
# The shortest allowed prefix length of a CIDR range: a /16 has 65,536 addresses, as many as a large
# company has.
_WIDEST = 16
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PATH = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?/)?{_PATH}(?:/{_PATH})*"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_MAX_IMAGE_LENGTH = 512
# This matches access tokens of Hugging Face, but not `hf_token`, a likely name of a secret.
_HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}")


@neuron_rule("zone-is-in-the-region")
def _zone_is_in_the_region(experiment: NeuronExperiment) -> Iterator[Problem]:
    aws = experiment.aws
    if not _is_zone_of(aws.region, aws.availability_zone):
        yield Problem(
            key=("aws", "availability_zone"),
            actual=f'"{aws.availability_zone}"',
            allowed=f"a zone of {aws.region}, e.g. {aws.region}a",
            reason="the subnets of the accelerator nodes lie in one zone of aws.region",
        )


@neuron_rule("second-zone-is-another")
def _second_zone_is_another(experiment: NeuronExperiment) -> Iterator[Problem]:
    aws = experiment.aws
    if aws.second_zone is None:
        return
    if not _is_zone_of(aws.region, aws.second_zone) or aws.second_zone == aws.availability_zone:
        yield Problem(
            key=("aws", "second_zone"),
            actual=f'"{aws.second_zone}"',
            allowed=f"a zone of {aws.region} other than aws.availability_zone",
            reason="EKS wants subnets in two zones of its region",
        )


@neuron_rule("capacity-has-its-keys")
def _capacity_has_its_keys(experiment: NeuronExperiment) -> Iterator[Problem]:
    capacity, key = experiment.aws.capacity, ("aws", "capacity")
    if capacity.is_block and capacity.reservation_id is None:
        yield Problem(
            key=(*key, "reservation_id"),
            actual="nothing",
            allowed=PATTERN_WORDS[PATTERNS["reservation"]],
            reason="EC2 launches nothing into a Capacity Block without its id",
        )
    for name in () if capacity.is_block else sorted(capacity.model_fields_set - {"kind"}):
        yield Problem(
            key=(*key, name),
            actual=f"a value with kind {capacity.kind}",
            allowed="leave the key out, or kind: capacity_block",
            reason="only a Capacity Block has it",
        )


@neuron_rule("block-has-its-price")
def _block_has_its_price(experiment: NeuronExperiment) -> Iterator[Problem]:
    aws = experiment.aws
    if aws.capacity.is_block and aws.price is None:
        yield Problem(
            key=("aws", "price"),
            actual="nothing",
            allowed="usd_per_hour, as_of and source: what was paid / (hours of the block x nodes)",
            reason="AWS tells a block's price only while it is on offer; `draftworth "
            "preflight --find` prints it then",
        )


@neuron_rule("block-is-not-on-hold")
def _block_is_not_on_hold(experiment: NeuronExperiment) -> Iterator[Problem]:
    aws = experiment.aws
    if aws.capacity.is_block and aws.hold:
        yield Problem(
            key=("aws", "hold"),
            actual="true with kind capacity_block",
            allowed="leave the key out, or kind: spot or on_demand, which buys nothing on hold",
            reason="the hours of a Capacity Block are paid whether its nodes run or not: deploy on "
            "hold first, and buy the block when all is well",
        )


def _is_zone_of(region: str, zone: str) -> bool:
    suffix = zone.removeprefix(region)
    return suffix != zone and re.fullmatch("[a-z]", suffix) is not None


@neuron_rule("public-access-is-limited")
def _public_access_is_limited(experiment: NeuronExperiment) -> Iterator[Problem]:
    for index, cidr in enumerate(experiment.aws.public_access_cidrs):
        if reason := _unfit_range(cidr):
            yield Problem(
                key=("aws", "public_access_cidrs", index),
                actual=f'"{cidr}"',
                allowed=f"public IPv4 ranges of /{_WIDEST} or narrower: your own address and /32",
                reason=reason,
            )


def _unfit_range(cidr: str) -> str:
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        return f"not an IPv4 range: {error}"
    if not network.is_global or network.is_multicast:
        # For such a range, EKS's API returns the error "The following CIDRs are not allowed in
        # publicAccessCidrs".
        return "EKS refuses private and reserved ranges; inside the VPC the API is reachable anyway"
    if network.prefixlen < _WIDEST:
        return "such a wide range opens the Kubernetes API to the internet"
    return ""


@neuron_rule("hub-token-stays-secret")
def _hub_token_stays_secret(experiment: NeuronExperiment) -> Iterator[Problem]:
    if _HUB_TOKEN.fullmatch(experiment.aws.hub_token_secret or ""):
        yield Problem(
            key=("aws", "hub_token_secret"),
            actual="a value like a Hugging Face token, hf_... (not repeated here)",
            allowed="the NAME of a Secrets Manager secret, as in draftworth/hub",
            reason="a name is written into templates and logs; put the token into the secret, and "
            "revoke it if this file was shared",
        )


@neuron_rule("image-is-pinned")
def _image_is_pinned(experiment: NeuronExperiment) -> Iterator[Problem]:
    image = experiment.aws.load_generator_image
    if image is not None and not is_pinned_image(image):
        yield Problem(
            key=("aws", "load_generator_image"),
            actual=f'"{image}"',
            allowed=PINNED_IMAGE_WORDS,
            reason="under a tag that moves two runs measure with different clients, and a changed "
            "Job keeps its name",
        )


@neuron_rule("pins-are-of-what-is-deployed")
def _pins_are_of_what_is_deployed(experiment: NeuronExperiment) -> Iterator[Problem]:
    pins, kubernetes = experiment.aws.pins, experiment.aws.kubernetes_version
    if pins.node_release and not pins.node_release.startswith(f"{kubernetes}."):
        yield Problem(
            key=("aws", "pins", "node_release"),
            actual=f'"{pins.node_release}" with Kubernetes {kubernetes}',
            allowed=f"a release {kubernetes}.x-YYYYMMDD",
            reason="EKS refuses a node image of another Kubernetes version in the first minutes of "
            "a deploy",
        )
    for name in pins.add_ons:
        if name not in ADD_ONS:
            yield Problem(
                key=("aws", "pins", "add_ons", name),
                actual=f'"{name}"',
                allowed=", ".join(ADD_ONS),
                reason="no other add-on is installed" + suggestion(name, ADD_ONS),
            )
    s3_driver = pins.add_ons.get(S3_ADD_ON, "v2.")
    if s3_driver.startswith(("v0.", "v1.")):
        yield Problem(
            key=("aws", "pins", "add_ons", S3_ADD_ON),
            actual=f'"{s3_driver}"',
            allowed="v2 or later",
            reason="v1 mounts no volume with the pod's own role (Pod Identity)",
        )


def is_pinned_image(image: str) -> bool:
    """Return whether `image` is an image's URI with a digest, or with a tag other than `latest`."""
    match = _IMAGE.fullmatch(image) if len(image) <= _MAX_IMAGE_LENGTH else None
    return match is not None and (match["digest"] or match["tag"] or "latest") != "latest"
