"""A winner that goes on serving: which it is, until when, and what is seen of it.

ONE definition, for who keeps it (the measuring Job), who guards it (the capacity controller) and
who publishes it (the metrics publisher). Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from draftworth.records.beside import read_beside
from draftworth.records.results import LIVE_FOLDER, MAX_VARIANTS, check_unix_s

# In the run's folder, written before `run.json`: whoever finds the run complete finds this too.
KEPT_FILE = "kept.json"
# Beside it, when the measuring Job lets the winner go: nothing is looked at any more, and its
# Service leads nowhere.
OVER_FILE = "over.json"
# Of a variant's or a server's name.
MAX_NAME = 100


@dataclass(frozen=True, kw_only=True)
class KeptWinner:
    """`kept.json`: the variant that goes on serving when its run is over.

    servers: names of its servers, which stay; every other one was stopped.
    since_unix_s: when the run was over.
    break_even_tokens_per_step: with fewer, decoding without a draft costs less, at the load that
        was measured nearest to one request in flight; None: no draft, or nothing shows its steps.
    """

    schema: str = "draftworth.kept-winner/1"
    run_id: str
    variant: str
    servers: tuple[str, ...]
    since_unix_s: float
    break_even_tokens_per_step: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.servers) <= MAX_VARIANTS:
            raise ValueError(f"servers: given {len(self.servers)}, allowed: 1 to {MAX_VARIANTS}")
        if not all(
            0 < len(n) <= MAX_NAME and n.isprintable() for n in (self.variant, *self.servers)
        ):
            raise ValueError(f"variant and servers: allowed: 1 to {MAX_NAME} printable characters")
        check_unix_s("since_unix_s", self.since_unix_s)
        if self.break_even_tokens_per_step is not None and self.break_even_tokens_per_step <= 0:
            raise ValueError(
                f"break_even_tokens_per_step: given {self.break_even_tokens_per_step}, allowed: "
                "above 0, or none"
            )


@dataclass(frozen=True, kw_only=True)
class ServingOver:
    """`over.json`: a winner serves no more. reason: in words."""

    schema: str = "draftworth.serving-over/1"
    run_id: str
    reason: str
    ended_at_unix_s: float

    def __post_init__(self) -> None:
        check_unix_s("ended_at_unix_s", self.ended_at_unix_s)


@dataclass(frozen=True, kw_only=True)
class LiveClass:
    """One prompt class in one probe, which is one request of it.

    ttft_s, itl_s, e2e_s: seconds. tokens_per_step: output tokens a verification step, where the
        server tells how many steps the request had; else a chunk after the first. None: nothing
        shows it, or the request failed.
    """

    prompt_class: str
    requests: int
    failed: int
    ttft_s: float | None
    itl_s: float | None
    e2e_s: float | None
    tokens_per_step: float | None

    def __post_init__(self) -> None:
        if not 0 <= self.failed <= self.requests:
            raise ValueError(f"failed: given {self.failed}, allowed: 0 to {self.requests}")


@dataclass(frozen=True, kw_only=True)
class LiveProbe:
    """`live/RUN_ID/NUMBER.json`: one look at a winner that serves.

    number: from 1. classes: what the probe's own requests met.
    source: of tokens_per_step: the server's counters since the look before, of everybody's requests
        but the probe's own, where they have as many steps at least; or the probe's own requests,
        weighted as the classes are.
    tokens_per_step: None where nothing shows it. acceptance: accepted / drafted tokens of all
        requests by the counters, None without them.
    break_even_tokens_per_step: with fewer, decoding without a draft costs less; None: no draft.
    drifted: fewer, in this look and in those before it that make a finding.
    """

    schema: str = "draftworth.live-probe/1"
    experiment: str
    run_id: str
    variant: str
    number: int
    began_at_unix_s: float
    ended_at_unix_s: float
    classes: tuple[LiveClass, ...]
    source: Literal["counters", "probe"]
    tokens_per_step: float | None
    acceptance: float | None
    break_even_tokens_per_step: float | None
    drifted: bool

    def __post_init__(self) -> None:
        check_unix_s("began_at_unix_s", self.began_at_unix_s)
        check_unix_s("ended_at_unix_s", self.ended_at_unix_s)

    @property
    def key(self) -> str:
        """Object key in the results bucket."""
        return live_key(self.run_id, self.number)

    @property
    def margin(self) -> float | None:
        """Tokens a step in break-evens: below 1 speculation costs more than it saves."""
        if self.tokens_per_step is None or not self.break_even_tokens_per_step:
            return None
        return self.tokens_per_step / self.break_even_tokens_per_step


def kept_key(run_id: str) -> str:
    """Below the runs' folder."""
    return f"{run_id}/{KEPT_FILE}"


def over_key(run_id: str) -> str:
    """Below the runs' folder."""
    return f"{run_id}/{OVER_FILE}"


def read_kept(folder: Path, run_id: str) -> KeptWinner | None:
    """Of a run's folder; None where no winner goes on serving.

    Raises:
        UserInputError: the file is none of this version, or of another run.
    """
    return read_beside(KeptWinner, folder / KEPT_FILE, run_id, what="winner that serves")


def read_last_probe(folder: Path, run_id: str) -> LiveProbe | None:
    """The last look at the winner of a run in a folder; None where none is at hand.

    They lie beside the runs, or beside their folder as in a results bucket.

    Raises:
        UserInputError: the file is none of this version, or of another run.
    """
    above = folder.absolute().parents[:2]
    probes = [path for at in above for path in (at / LIVE_FOLDER / run_id).glob("[0-9]*.json")]
    if not probes:
        return None
    last = max(probes, key=lambda path: path.name)
    return read_beside(LiveProbe, last, run_id, what="look at a winner")


def live_key(run_id: str, number: int) -> str:
    """Object key of a probe, in the results bucket."""
    return f"{LIVE_FOLDER}/{run_id}/{number:06}.json"
