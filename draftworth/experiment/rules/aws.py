"""The AWS section: zone, access, secrets, images."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from draftworth.errors import Problem
from draftworth.experiment.model import NeuronExperiment

PINNED_IMAGE_WORDS = "an image with a tag other than latest, or with a digest (NAME@sha256:...)"
# An access token of the model hub: a secret may well be NAMED hf_token.
_HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}")


def _zone_is_in_the_region(experiment: NeuronExperiment) -> Iterator[Problem]:
    region, zone = experiment.aws.region, experiment.aws.availability_zone
    suffix = zone.removeprefix(region)
    if suffix == zone or len(suffix) != 1 or not suffix.isalpha():
        yield Problem(
            key=("aws", "availability_zone"),
            given=f'"{zone}"',
            allowed=f"a zone of {region}, e.g. {region}a",
            reason="the subnets of the accelerator nodes lie in one zone of aws.region",
        )


def _public_access_is_limited(experiment: NeuronExperiment) -> Iterator[Problem]:
    for index, cidr in enumerate(experiment.aws.public_access_cidrs):
        if reason := _unfit_range(cidr):
            yield Problem(
                key=("aws", "public_access_cidrs", index),
                given=f'"{cidr}"',
                allowed="public IPv4 ranges of /8 or narrower: your own address and /32",
                reason=reason,
            )


def _unfit_range(cidr: str) -> str:
    """Why EKS or common sense refuses a range; empty if neither does."""
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        return f"not an IPv4 range: {error}"
    if network.prefixlen < 8:
        return "so wide a range opens the Kubernetes API to the internet"
    if not network.is_global:
        # EKS: "The following CIDRs are not allowed in publicAccessCidrs".
        return "EKS refuses private and reserved ranges; inside the VPC the API is reachable anyway"
    return ""


def _admin_arns(experiment: NeuronExperiment) -> Iterator[Problem]:
    for index, arn in enumerate(experiment.aws.admin_principal_arns):
        parts = arn.split(":")
        valid = len(parts) == 6 and parts[2] == "iam" and parts[5].startswith(("role/", "user/"))
        if not valid:
            yield Problem(
                key=("aws", "admin_principal_arns", index),
                given=f'"{arn}"',
                allowed="an IAM role or user ARN, e.g. arn:aws:iam::111122223333:role/Admin",
                reason="access entries name IAM roles or users; a session ARN (sts) is neither",
            )


def _hub_token_stays_secret(experiment: NeuronExperiment) -> Iterator[Problem]:
    if _HUB_TOKEN.fullmatch(experiment.aws.hub_token_secret or ""):
        yield Problem(
            key=("aws", "hub_token_secret"),
            given="what looks like a hub token, hf_... (not repeated here)",
            allowed="the NAME of a Secrets Manager secret, as in draftworth/hub",
            reason="a name is written into templates and logs; put the token into the secret, and "
            "revoke it if this file was shared",
        )


def _image_is_pinned(experiment: NeuronExperiment) -> Iterator[Problem]:
    image = experiment.aws.load_generator_image
    if image is not None and not is_pinned_image(image):
        yield Problem(
            key=("aws", "load_generator_image"),
            given=f'"{image}"',
            allowed=PINNED_IMAGE_WORDS,
            reason="under a tag that moves two runs measure with different clients, and a changed "
            "Job keeps its name",
        )


def is_pinned_image(image: str) -> bool:
    """Whether an image URI says which image: a digest, or a tag that is not `latest`."""
    if "@sha256:" in image:
        return True
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return bool(colon) and tag not in ("", "latest")


NEURON = (
    _zone_is_in_the_region,
    _public_access_is_limited,
    _admin_arns,
    _hub_token_stays_secret,
    _image_is_pinned,
)
