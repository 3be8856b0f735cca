"""A complete run's findings: `verdict.json`, and answers on whether published claims are true.

`verdict.json` is written before `run.json`; the capacity controller quotes it in its mail.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, load_record
from draftworth.records.judgement import Judgement
from draftworth.untrusted import DOCUMENT_LIMIT_BYTES, TooLargeError, read_file

# The folder of all runs in a results bucket.
RUNS_FOLDER = "runs"
VERDICT_FILE = "verdict.json"
# The folder inside a run's folder with the report, which the measuring Job writes after the run.
REPORT_FOLDER = "report"
REPORT_PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One variant compared with a baseline, for a prompt class or the traffic mix, at one load.

    traffic, load: the name of this class or of the mix, and the label of the load.
    cost_ratio: the variant's cost of an output token divided by the baseline's, with its 95%
        interval; None if it is not known.
    sentence: the finding in words.
    noise_floor_low, noise_floor_high: the 95% interval of the control's cost ratio (two servers
        without speculation); None if it was not measured.
    clears_noise_floor: whether the interval of `cost_ratio` is outside the noise floor; None: these
        two intervals were not compared.
    holds_for_repetitions: the number of repetitions that the interval of `cost_ratio` holds for;
        None: it holds for further starts of the servers too, or is not known.
    """

    traffic: str
    load: str
    variant: str
    baseline: str
    judgement: Judgement
    cost_ratio: float | None
    cost_ratio_low: float | None
    cost_ratio_high: float | None
    sentence: str
    noise_floor_low: float | None = None
    noise_floor_high: float | None = None
    clears_noise_floor: bool | None = None
    holds_for_repetitions: int | None = None


ClaimAnswer = Literal["reproduced", "not reproduced", "inconclusive", "not comparable"]


@dataclass(frozen=True, kw_only=True)
class ClaimFinding:
    """Whether a run reproduces the published claim whose name is `claim`, such as a speed-up.

    docs/claims.md explains each answer. sentence: the answer and its reason in words.
    """

    claim: str
    answer: ClaimAnswer
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`verdict.json`: the run's answer in one sentence (`headline`), its findings, and notes.

    decision: what to serve, in one sentence; empty in files of earlier versions.
    findings: in the order of the report, those of the traffic mix first.
    notes: up to which load a variant is cheaper, or within the limits; why intervals are wider, if
        a verdict could end the run; doubts about the figures.
    """

    schema: str = "draftworth.verdict/2"
    run_id: str
    experiment: str
    decision: str = ""
    headline: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{RUNS_FOLDER}/{self.run_id}/{VERDICT_FILE}"


class _HasRunId(Protocol):
    @property
    def run_id(self) -> str: ...


R = TypeVar("R", bound=_HasRunId)


def read_beside(
    kind: type[R],
    path: Path,
    run_id: str,
    *,
    what: str,
    limit_bytes: int = DOCUMENT_LIMIT_BYTES,
) -> R | None:
    """Read a record of type `kind` about a run; None if the file does not exist.

    UserInputError is raised if the file cannot be read as this record, or belongs to another run.
    what: the record in words, for the error message. limit_bytes: the most bytes of the file.
    """
    if not os.path.lexists(path):
        return None
    try:
        record = load_record(kind, read_file(path, limit_bytes))
    except (OSError, RecordError, TooLargeError) as error:
        raise UserInputError(f"{path}: no {what} of this version: {error}") from error
    if record.run_id != run_id:
        raise UserInputError(f"{path}: {what} of run {record.run_id!r}, not of {run_id}")
    return record
