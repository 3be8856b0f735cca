"""The experiment file's `aws` section: region, zones, nodes, how they are bought, and limits."""

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticKnownError

from draftworth.experiment import strict
from draftworth.experiment.catalog import catalog
from draftworth.records.deployment import MAX_DEADLINE_MINUTES

S3_ADD_ON = "aws-mountpoint-s3-csi-driver"
# A Capacity Block lasts 182 days at most, plus the rest of its first day.
MAX_BLOCK_HOURS = 183 * 24
# EKS add-ons that the CDK stack installs; `aws.pins.add_ons` may pin their versions.
ADD_ONS = (
    "amazon-cloudwatch-observability",
    S3_ADD_ON,
    "coredns",
    "eks-pod-identity-agent",
    "kube-proxy",
    "metrics-server",
    "vpc-cni",
)


class OnDemand(strict.StrictModel):
    """Nodes at the public price, when there are any."""

    kind: Literal["on_demand"]


class Spot(strict.StrictModel):
    """Nodes from spare capacity, taken back at two minutes' notice."""

    kind: Literal["spot"]


class CapacityBlock(strict.StrictModel):
    """Nodes from a Capacity Block for ML, paid in advance for a window of time."""

    kind: Literal["capacity_block"]
    reservation_id: Annotated[str, Field(pattern=strict.RESERVATION_PATTERN)]
    """id of the Capacity Block, cr- and 17 hex digits: without it EC2 launches nothing into the
    block"""
    hours: Annotated[float, Field(ge=1, le=MAX_BLOCK_HOURS)] | None = None
    """hours the block was bought for; left out: 24, the shortest that is sold in advance.
    `python -m draftworth plan` charges them whole"""


Capacity = Annotated[OnDemand | Spot | CapacityBlock, Field(discriminator="kind")]


def _day(given: Any) -> Any:
    try:
        return date.fromisoformat(given)
    except (TypeError, ValueError):
        return given  # `given` is a date, or pydantic will refuse it


class Price(strict.StrictModel):
    """The price of an accelerator node: data with a date, because prices move."""

    usd_per_hour: strict.PositiveFloat
    """US dollars a node and hour; of a Capacity Block its fee / (hours x instances)"""
    as_of: Annotated[date, BeforeValidator(_day)]
    """the day this price was looked up, YYYY-MM-DD"""
    source: str = Field(min_length=1, description="where it was looked up")


class Pins(strict.StrictModel):
    """Versions that a deploy takes as they stand here; EKS chooses those that are left out.

    EKS chooses anew on each day: two deploys of one file may differ in them.
    `preflight` prints the versions that a deploy would get today.
    """

    node_release: Annotated[str, Field(pattern=strict.NODE_RELEASE_PATTERN)] | None = None
    """release of the node images, of CPU and accelerator nodes, as in 1.35.2-20261102; change it in
    a deploy that changes nothing else of the nodes"""
    add_ons: dict[str, Annotated[str, Field(pattern=strict.ADD_ON_VERSION_PATTERN)]] = Field(
        default_factory=dict,
        description="EKS add-on to its version, as in vpc-cni: v1.21.1-eksbuild.3",
    )


def _known_instance_type(name: str) -> str:
    if name not in catalog().instances:
        raise PydanticKnownError("literal_error", {"expected": " or ".join(catalog().instances)})
    return name


SecretName = Annotated[str, Field(pattern=strict.SECRET_NAME_PATTERN, max_length=512)]
AdminArn = Annotated[str, Field(pattern=strict.ADMIN_ARN_PATTERN)]


class Aws(strict.StrictModel):
    """Region, nodes, access, price and limits of a deploy."""

    region: str = Field(pattern=strict.REGION_PATTERN, description="AWS region, e.g. us-east-2")
    availability_zone: str = Field(
        examples=["us-east-2c"],
        description="the one zone of the accelerator nodes, e.g. us-east-2c: EFA, placement group "
        "and Capacity Block all live in one zone",
    )
    instance_type: Annotated[str, AfterValidator(_known_instance_type)] = Field(
        default="trn2.48xlarge",
        json_schema_extra={"enum": [*catalog().instances]},
        description="EC2 type of the accelerator nodes; each variant holds "
        "serving.slot_devices of their devices",
    )
    kubernetes_version: Literal["1.35"] = "1.35"
    """quoted; DRA needs 1.34 or later, 1.35 is what is supported here"""
    pins: Pins = Pins()
    """versions of add-ons and node images; left out: what EKS gives on the day"""
    public_access_cidrs: Annotated[tuple[str, ...], Field(max_length=40), strict.EachOnce] = ()
    """IPv4 ranges that may reach the Kubernetes API from outside; none: private"""
    admin_principal_arns: Annotated[
        tuple[AdminArn, ...], Field(max_length=40), strict.EachOnce
    ] = ()
    """IAM roles or users who get cluster administrator access; no session (sts)"""
    second_zone: str | None = None
    """the EKS control plane's other zone, where no node runs; left out: zone a, or b beside a"""
    capacity: Capacity = Field(description="how accelerator nodes are bought")
    price: Price | None = None
    """price of one accelerator node; left out: `python -m draftworth price` asks AWS, which knows
    Spot and on-demand prices, but no Capacity Block's once it is bought"""
    budget_usd: strict.PositiveFloat
    """accelerator nodes go to zero when their hours x price reach this, US dollars"""
    notify_email: str | None = Field(default=None, pattern=strict.EMAIL_PATTERN)
    """gets each decision about the accelerator nodes, once the address is confirmed"""
    hub_token_secret: SecretName | None = None
    """NAME of the Secrets Manager secret that holds the hub token, for gated models; the token
    itself belongs in no file"""
    keep_checkpoints: bool
    """true: the checkpoints bucket outlives `cdk destroy`; false: it goes"""
    keep_results: bool = True
    """true: the results bucket, transcripts included, outlives `cdk destroy`; false: it goes"""
    load_generator_image: str | None = None
    """image URI of the measuring Job; left out: built by CDK"""
    deadline_minutes: Annotated[int, Field(ge=1, le=MAX_DEADLINE_MINUTES)] = 240
    """accelerator nodes go to zero this many minutes after the deploy, whatever the state; the
    measuring run gets as many from its first pod's start; may be moved meanwhile"""

    def example_values(self) -> Iterator[str]:
        """Yield keys that still have an example's value: `aws.capacity.reservation_id cr-...`."""
        capacity = self.capacity
        if (
            isinstance(capacity, CapacityBlock)
            and capacity.reservation_id == strict.EXAMPLE_RESERVATION
        ):
            yield f"aws.capacity.reservation_id {strict.EXAMPLE_RESERVATION}"
        for arn in self.admin_principal_arns:
            if f"::{strict.EXAMPLE_ACCOUNT}:" in arn:
                yield f"aws.admin_principal_arns {arn}"
        if (self.load_generator_image or "").startswith(f"{strict.EXAMPLE_ACCOUNT}."):
            yield f"aws.load_generator_image {self.load_generator_image}"


# The measuring Job requests two whole vCPUs. A node with two vCPUs has less left for pods, because
# the system reserves a part. On two nodes cluster services fit too, and survive the loss of a node.
CPU_INSTANCE_TYPE = "m7i.xlarge"
CPU_INSTANCE_VCPUS = 4
CPU_NODES = 2


def second_zone(aws: Aws) -> str:
    """Return the second zone, which EKS requires for its control plane; no node runs there.

    If the file leaves it out, it is zone `a`, or `b` if the accelerators are in `a`. AWS maps zone
    letters to data centres differently in each account, and some accounts lack `a` or `b`.
    """
    if aws.second_zone:
        return aws.second_zone
    region, letter = aws.availability_zone[:-1], aws.availability_zone[-1]
    return f"{region}b" if letter == "a" else f"{region}a"
