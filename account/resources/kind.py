"""What a row of the table says about a kind of resource, and what is told of one that exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from draftworth.experiment.strict import StrictModel, read_yaml

# One entry of a listing, as AWS answers it.
Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A resource that exists.

    usd_per_month: None where the price is not known.
    kept: why it stays on purpose; empty for what should be gone.
    remove: the command that removes it, or what to wait for.
    """

    kind: str
    id: str
    remove: str
    name: str = ""
    created: datetime | None = None
    usd_per_month: float | None = 0.0
    kept: str = ""


class Kind(StrictModel):
    """One kind of resource.

    Texts in braces are filled in: of the scope `project`, `assets`, `cluster`, `dashboard`; in
    `id`, `name` and `remove` also `aws` (`aws SERVICE --region REGION`) and the keys of the
    listing's entry. An entry that is one string has it as `Ref` and its last part as `Name`.

    lists: the service, boto3's name of the listing, the JMESPath of the entries in its answer.
    asks: the arguments of each call; `filters`: instead of them, the filter of each call.
    ours: what tells whether an entry is the experiment's; `tags`: the service's operation that
    reads tags, its argument, and the entry's key that holds it, for what is known by its tag or
    else its name. Left out both: the calls ask for nothing else.
    name: left out: the tag `Name`.
    created: the entry's key of the time.
    usd: a price of `prices.yaml` or `assumptions.yaml`; `amount`: the entry's key of how much.
    amend: what is odd about this kind.
    covers: the ARN type (`service:type`) that it knows better than the tag index, which goes on
    listing what was deleted a while ago.
    """

    kind: str
    lists: tuple[str, str, str]
    remove: str
    asks: tuple[dict[str, str], ...] = ({},)
    filters: tuple[str, ...] = ()
    ours: str = ""
    tags: tuple[str, str, str] | None = None
    id: str = "{Name}"
    name: str = ""
    created: str = ""
    usd: str = ""
    amount: str = ""
    amend: str = ""
    covers: str = ""

    @property
    def looks_at(self) -> str:
        """The plural: it completes "could not look at"."""
        return f"{self.kind}es" if self.kind.endswith("s") else f"{self.kind}s"


@cache
def kinds() -> Sequence[Kind]:
    """Every kind of resource, read once."""
    text = (files("account.resources") / "table.yaml").read_text(encoding="utf-8")
    return read_yaml(list[Kind], text)
