"""The experiment file's `aws` section: region, zones, nodes, how they are bought, and limits."""

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticKnownError

from draftworth.experiment import strict_model
from draftworth.experiment.catalog import catalog
from draftworth.records.deployment import MAX_DEADLINE_MINUTES, CapacityKind

S3_ADD_ON = "aws-mountpoint-s3-csi-driver"
# A Capacity Block lasts 182 days at most, plus the rest of its first day.
MAX_BLOCK_HOURS = 183 * 24
# The Helm chart of the Neuron DRA driver: registry, repository, tag.
NEURON_CHART_REGISTRY = "public.ecr.aws"
NEURON_CHART = "neuron/neuron-helm-chart"
NEURON_CHART_VERSION = "1.10.0"
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


class Capacity(strict_model.StrictModel):
    """How accelerator nodes are bought."""

    kind: CapacityKind
    """on_demand: nodes at the public price, when there are any; spot: nodes from spare capacity,
    which EC2 may take back two minutes after a warning; capacity_block: nodes from a Capacity
    Block for ML, paid in advance for a window of time"""
    reservation_id: Annotated[str, Field(pattern=strict_model.PATTERNS["reservation"])] | None = (
        None
    )
    """id of the Capacity Block, cr- and 17 hex digits: without it EC2 launches nothing into the
    block"""
    hours: Annotated[float, Field(ge=1, le=MAX_BLOCK_HOURS)] | None = None
    """hours for which the block was bought; left out: 24, the shortest length that is sold in
    advance. `draftworth plan` charges all of them"""

    @property
    def is_block(self) -> bool:
        return self.kind == "capacity_block"


def _day(value: Any) -> Any:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return value  # it is a date already, or no date, and then pydantic refuses it


class Price(strict_model.StrictModel):
    """The price of an accelerator node, with its date, because prices change."""

    usd_per_hour: strict_model.PositiveFloat
    """US dollars for one node and hour; for a Capacity Block: its fee / (hours x instances)"""
    as_of: Annotated[date, BeforeValidator(_day)]
    """the day this price was looked up, YYYY-MM-DD"""
    source: str = Field(min_length=1, description="where it was looked up")


class Pins(strict_model.StrictModel):
    """Versions that a deploy uses exactly as given; EKS chooses those that are left out.

    EKS may choose other versions each day, so two deploys of one file may differ.
    `preflight` prints the versions that a deploy would get today.
    """

    node_release: Annotated[str, Field(pattern=strict_model.PATTERNS["node_release"])] | None = None
    """release of the image of accelerator nodes, as in 1.35.2-20261102; left out: EKS's newest, or
    one whose Neuron driver fits the serving image, if the newest one's does not. CPU nodes have no
    Neuron driver and get EKS's newest. A deploy that changes it should change nothing else about
    the nodes"""
    serving_image_digest: (
        Annotated[str, Field(pattern=strict_model.PATTERNS["image_digest"])] | None
    ) = None
    """digest of the serving image, sha256: and 64 hex digits; left out: nodes pull it by its tag.
    The digest is a part of the artifact key, so with another one servers compile"""
    add_ons: dict[str, Annotated[str, Field(pattern=strict_model.PATTERNS["add_on_version"])]] = (
        Field(
            default_factory=dict,
            description="EKS add-on to its version, as in vpc-cni: v1.21.1-eksbuild.3",
        )
    )


def _instance_type_of_the_catalogue(name: str) -> str:
    if name not in catalog().instances:
        raise PydanticKnownError("literal_error", {"expected": " or ".join(catalog().instances)})
    return name


def _kubernetes_version_of_the_catalogue(version: str) -> str:
    if version not in catalog().kubernetes_versions:
        expected = " or ".join(catalog().kubernetes_versions)
        raise PydanticKnownError("literal_error", {"expected": expected})
    return version


BucketName = Annotated[str, Field(pattern=strict_model.PATTERNS["bucket_name"])]
SecretName = Annotated[str, Field(pattern=strict_model.PATTERNS["secret_name"], max_length=512)]
AdminArn = Annotated[str, Field(pattern=strict_model.PATTERNS["admin_arn"])]


class Aws(strict_model.StrictModel):
    """Region, nodes, access, price and limits of a deploy."""

    region: str = Field(
        pattern=strict_model.PATTERNS["region"], description="AWS region, e.g. us-east-2"
    )
    availability_zone: str = Field(
        examples=["us-east-2c"],
        description="the one zone of the accelerator nodes, e.g. us-east-2c: EFA, placement group "
        "and Capacity Block work within one zone only",
    )
    instance_type: Annotated[str, AfterValidator(_instance_type_of_the_catalogue)] = Field(
        default="trn2.48xlarge",
        json_schema_extra={"enum": [*catalog().instances]},
        description="EC2 type of the accelerator nodes; each variant holds "
        "serving.slot_devices of their devices",
    )
    kubernetes_version: Annotated[str, AfterValidator(_kubernetes_version_of_the_catalogue)] = (
        Field(
            default="1.35",
            json_schema_extra={"enum": [*catalog().kubernetes_versions]},
            description="in quotes; DRA needs 1.34 or later. The drivers of node images are known "
            "for 1.35 alone",
        )
    )
    pins: Pins = Pins()
    """versions of add-ons and node images; left out: those that EKS chooses on the day"""
    public_access_cidrs: Annotated[
        tuple[str, ...], Field(max_length=40), strict_model.EachOnce
    ] = ()
    """IPv4 ranges that may reach the Kubernetes API from outside; none: the API is private"""
    admin_principal_arns: Annotated[
        tuple[AdminArn, ...], Field(max_length=40), strict_model.EachOnce
    ] = ()
    """IAM roles or users that become cluster administrators; a session (sts) is not allowed"""
    second_zone: str | None = None
    """the other zone of EKS's control plane, without nodes; left out: a, or b if nodes are in a"""
    capacity: Capacity
    """how accelerator nodes are bought"""
    hold: bool = False
    """true: everything is deployed, staged and tried on CPU nodes, but no accelerator node starts;
    the next deploy without it starts them"""
    price: Price | None = None
    """price of one accelerator node; left out: `draftworth price` asks AWS, which knows
    Spot and on-demand prices, but not the price of a Capacity Block that was bought"""
    accelerator_budget_usd: strict_model.PositiveFloat
    """accelerator nodes are ended when their hours x price reach this many US dollars; what runs
    beside them from deploy to destroy (CPU nodes, cluster, network) is billed on top"""
    notify_email: str | None = Field(default=None, pattern=strict_model.PATTERNS["email"])
    """address that gets a mail at each decision about accelerator nodes, once it is confirmed"""
    hub_token_secret: SecretName | None = None
    """NAME of the Secrets Manager secret that holds the Hugging Face token, for gated models; never
    write the token itself into a file"""
    keep_checkpoints: bool = False
    """true: the checkpoints bucket outlives `cdk destroy`; false: it is deleted"""
    checkpoints_bucket: BucketName | None = None
    """NAME of a checkpoints bucket that outlived its own stack: models that it has are not staged
    again, and it stays at every destroy; left out: a new bucket"""
    keep_results: bool = True
    """true: the results bucket, with transcripts, outlives `cdk destroy`; false: it is deleted"""
    load_generator_image: str | None = None
    """image URI of the measuring Job; left out: CDK builds the image"""
    deadline_minutes: Annotated[int, Field(ge=1, le=MAX_DEADLINE_MINUTES)] = 240
    """accelerator nodes are ended this many minutes after the deploy, whatever the state; a run
    also ends this many minutes after its first pod's start; another deploy may change the number"""

    def example_values(self) -> Iterator[str]:
        """Yield `KEY VALUE` for each value with an id that is only an example, and not the user's.

        The shipped example files have these ids, of a reservation and of an account.
        """
        if self.capacity.reservation_id == strict_model.EXAMPLE_RESERVATION:
            yield f"aws.capacity.reservation_id {strict_model.EXAMPLE_RESERVATION}"
        for arn in self.admin_principal_arns:
            if f"::{strict_model.EXAMPLE_ACCOUNT}:" in arn:
                yield f"aws.admin_principal_arns {arn}"
        if (self.load_generator_image or "").startswith(f"{strict_model.EXAMPLE_ACCOUNT}."):
            yield f"aws.load_generator_image {self.load_generator_image}"


# The measuring Job requests two whole vCPUs. A node with two vCPUs has less left for pods, because
# the system reserves a part. Two nodes also have room for the cluster's services (such as CoreDNS),
# which survive the loss of one node.
CPU_INSTANCE_TYPE = "m7i.xlarge"
CPU_INSTANCE_VCPUS = 4
CPU_NODES = 2

# The number of resources that CDK's kubectl functions create or delete at a time. Each takes two of
# the account's concurrent executions of Lambda, because CDK's function waits for the one that runs
# kubectl. A new account may have ten of them; a further call is refused, and with it the deploy.
KUBECTL_AT_ONCE = 4


def second_zone(aws: Aws) -> str:
    """Return the second zone, which EKS requires for its control plane; no node runs there.

    If the file leaves `aws.second_zone` out, it is zone `a`, or `b` if the accelerators are in `a`.
    A user may have to set it: AWS maps zone letters to data centres differently in each account,
    and some accounts lack `a` or `b`.
    """
    if aws.second_zone:
        return aws.second_zone
    region, letter = aws.availability_zone[:-1], aws.availability_zone[-1]
    return f"{region}b" if letter == "a" else f"{region}a"
