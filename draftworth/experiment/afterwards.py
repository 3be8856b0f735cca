"""What becomes of the servers when the run is over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field
from pydantic_core import PydanticCustomError

from draftworth.experiment.patterns import PositiveFloat
from draftworth.experiment.strict import StrictModel
from draftworth.records.capacity import YEAR_2100

# A request of each class; more often would be load, less often would see a drift late.
PROBE_SECONDS = 60


def _between_1970_and_2100(time: datetime) -> datetime:
    """As the capacity controller takes it, and as every clock has it in seconds since 1970."""
    first, last = (datetime.fromtimestamp(unix_s, UTC) for unix_s in (0, YEAR_2100))
    if not first < time < last:
        words = f"after {first:%Y-%m-%d %H:%M} and before {last:%Y-%m-%d %H:%M} UTC"
        raise PydanticCustomError("another_century", words)
    return time


class Nothing(StrictModel):
    """Everything goes when the run is over."""

    kind: Literal["nothing"]


class _Serve(StrictModel):
    """The winner goes on serving when the run is over, until its time or its money is gone."""

    kind: Literal["serve"]
    serve_until: Annotated[AwareDatetime, AfterValidator(_between_1970_and_2100)] | None = Field(
        default=None,
        description="with its time zone, as in 2026-12-01T08:00:00Z; left out: until budget_usd",
    )
    budget_usd: PositiveFloat
    """US dollars that serving may cost, counted from the end of the run"""
    probe_seconds: float = Field(default=PROBE_SECONDS, ge=1, le=3600)
    """time between two probes: a request of each prompt class, whose tokens a step are compared
    with the break-even"""


class ServeOnDevices(_Serve):
    """On Neuron devices."""

    replicas: Literal["one", "every_slot"] = "one"
    """one server of the winner, and one node; or one in every slot, and all nodes of the run"""


class ServeHere(_Serve):
    """On this machine, a rehearsal."""

    usd_per_hour: PositiveFloat
    """what this machine is taken to cost, US dollars an hour: a budget is money over time"""


AfterOnDevices = Annotated[Nothing | ServeOnDevices, Field(discriminator="kind")]
AfterHere = Annotated[Nothing | ServeHere, Field(discriminator="kind")]
