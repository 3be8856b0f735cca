"""The experiment file's AWS section: where and on what it runs, how nodes are bought."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from draftworth.experiment.patterns import (
    EMAIL_PATTERN,
    REGION_PATTERN,
    RESERVATION_PATTERN,
    SECRET_NAME_PATTERN,
    EachOnce,
    PositiveFloat,
)
from draftworth.experiment.strict import StrictModel
from draftworth.records.capacity import MAX_DEADLINE_MINUTES


class OnDemand(StrictModel):
    """Nodes at the public price, when there are any."""

    kind: Literal["on_demand"]


class Spot(StrictModel):
    """Nodes from spare capacity, taken back at two minutes' notice."""

    kind: Literal["spot"]


class CapacityBlock(StrictModel):
    """Nodes from a Capacity Block for ML, paid in advance for a window of time."""

    kind: Literal["capacity_block"]
    reservation_id: str = Field(
        pattern=RESERVATION_PATTERN,
        description="id of the Capacity Block, cr- and 17 hex digits: without it EC2 launches "
        "nothing into the block",
    )


Capacity = Annotated[OnDemand | Spot | CapacityBlock, Field(discriminator="kind")]


class Price(StrictModel):
    """What an accelerator node costs. Prices move: this is data with a date, never code."""

    usd_per_hour: PositiveFloat = Field(description="US dollars a node and hour")
    as_of: date = Field(description="the day this price was looked up, YYYY-MM-DD")
    source: str = Field(min_length=1, description="where it was looked up")


class Aws(StrictModel):
    """Where and on what the experiment runs."""

    region: str = Field(pattern=REGION_PATTERN, description="AWS region, e.g. us-east-2")
    availability_zone: str = Field(
        description="the one zone of the accelerator nodes, e.g. us-east-2c: EFA, placement group "
        "and Capacity Block all live in one zone"
    )
    kubernetes_version: Literal["1.35"] = "1.35"
    """quoted; DRA needs 1.34 or later, 1.35 is what is supported here"""
    public_access_cidrs: Annotated[tuple[str, ...], Field(max_length=40), EachOnce] = ()
    """IPv4 ranges that may reach the Kubernetes API from outside; none: private"""
    admin_principal_arns: Annotated[tuple[str, ...], Field(max_length=40), EachOnce] = ()
    """IAM roles or users who get cluster administrator access"""
    second_zone: str | None = None
    """the EKS control plane's other zone, where no node runs; left out: zone a, or b beside a"""
    capacity: Capacity = Field(description="how accelerator nodes are bought")
    price: Price | None = Field(
        default=None,
        description="price of one accelerator node; left out: `draftworth price` asks AWS, which "
        "knows Spot and on-demand prices, but no Capacity Block's once it is bought",
    )
    budget_usd: PositiveFloat
    """accelerator nodes go to zero when their hours x price reach this, US dollars"""
    notify_email: str | None = Field(default=None, pattern=EMAIL_PATTERN)
    """gets each decision about the accelerator nodes, once the address is confirmed"""
    hub_token_secret: str | None = Field(
        default=None,
        pattern=SECRET_NAME_PATTERN,
        max_length=512,
        description="NAME of the Secrets Manager secret that holds the hub token, for gated "
        "models; the token itself belongs in no file",
    )
    keep_checkpoints: bool
    """true: the checkpoints bucket outlives `cdk destroy`; false: it goes"""
    load_generator_image: str | None = None
    """image URI of the load generator; left out: built by CDK"""
    deadline_minutes: int = Field(
        default=240,
        ge=1,
        le=MAX_DEADLINE_MINUTES,
        description="accelerator nodes go to zero this many minutes after the deploy, whatever the "
        "state; the measuring run gets as many from its first pod's start; may be moved meanwhile",
    )
