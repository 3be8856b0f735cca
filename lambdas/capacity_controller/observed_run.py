"""Observes in S3 whether the measuring Job's run has begun or is over, and reads its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from draftworth.records import results
from draftworth.records.codec import RecordError
from draftworth.records.findings import VERDICT_FILE, Verdict
from draftworth.untrusted import TooLargeError, one_line
from lambdas.capacity_controller.s3_reading import QUOTED_LINES, pages_of, read_record

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Each Kubernetes Job object has one run, and few Job objects ever have the same name.
MAX_RUNS = 100
# A headline also says what the run may have missed: the longest has some 600 characters.
_HEADLINE_CHARACTERS = 1_000


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """The run of the deployed measuring Job; the texts are empty until the run is over.

    text: why the run failed, from its `run.json`. address: the run's folder, as `s3://...`.
    decision: what a complete run's verdict says to serve, in one sentence; empty if the verdict is
        not known, or of an earlier version. answer: the sentences of the verdict, the headline
        first, or why the verdict is not known.
    measured_at_unix_s: when the newest result was written; None: there is none, or the run is over.
    """

    state: Literal["none", "begun", "complete", "failed"]
    run_id: str = ""
    text: str = ""
    address: str = ""
    decision: str = ""
    answer: tuple[str, ...] = ()
    measured_at_unix_s: float | None = None


def run_of(s3: S3Client, bucket: str, job_name: str) -> ObservedRun:
    """Observe the Job's runs: return the first that is over; if none is, whether a run has begun.

    Each Job object of this name has one run. `run.json` is written last, when the run is over.
    Raise ValueError if there are more than `MAX_RUNS`.
    """
    pages = pages_of(s3, bucket, f"{results.RUNS_FOLDER}/{job_name}-")
    folders = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
    for folder in folders[:MAX_RUNS]:
        run_id = one_line(folder.split("/")[-2], characters=100)
        try:
            run = read_record(results.RunResult, s3, bucket, f"{folder}{results.RUN_FILE}")
        except (RecordError, TooLargeError) as error:
            text = one_line(f"its {results.RUN_FILE} cannot be read: {error}")
            return ObservedRun(state="failed", run_id=run_id, text=text)
        if run is not None:
            is_complete = run.status == "complete"
            decision, answer = _verdict(s3, bucket, folder) if is_complete else ("", ())
            return ObservedRun(
                state=run.status,
                run_id=run_id,
                text=one_line(run.reason),
                address=one_line(f"s3://{bucket}/{folder.rstrip('/')}"),
                decision=decision,
                answer=answer,
            )
    if len(folders) > MAX_RUNS:
        raise ValueError(f"Job {job_name} has more than {MAX_RUNS} runs")
    measured = [_newest_result(s3, bucket, folder) for folder in folders]
    newest = max((at for at in measured if at is not None), default=None)
    return ObservedRun(state="begun" if folders else "none", measured_at_unix_s=newest)


def _verdict(s3: S3Client, bucket: str, folder: str) -> tuple[str, tuple[str, ...]]:
    """Return a run's decision, and the sentences of its verdict, the headline first.

    folder: the run's folder in the bucket. If there is no valid verdict of this run, the decision
    is empty, and the only sentence says why.
    """
    # The run is over with or without a verdict, so no error here may keep nodes up.
    try:
        verdict = read_record(Verdict, s3, bucket, f"{folder}{VERDICT_FILE}")
    except Exception as error:  # noqa: BLE001 - no object of another program ends the function
        why = str(error) or type(error).__name__
        unknown = f"The verdict is not known here: {VERDICT_FILE} cannot be read: {why}"
        return "", (one_line(unknown),)
    if verdict is None:
        return "", (f"The verdict is not known here: there is no {VERDICT_FILE}.",)
    if verdict.run_id != folder.split("/")[-2]:
        return "", (f"The verdict is not known here: {VERDICT_FILE} is another run's.",)
    return quoted_answer(verdict)


def quoted_answer(verdict: Verdict) -> tuple[str, tuple[str, ...]]:
    """Return what a mail quotes of a verdict: its decision, and its other sentences.

    The first of these is the headline. At most `QUOTED_LINES` of the rest follow.
    """
    sentences = (*(finding.sentence for finding in verdict.findings), *verdict.notes)
    quoted = tuple(one_line(sentence) for sentence in sentences[:QUOTED_LINES])
    if len(sentences) > QUOTED_LINES:
        quoted += (f"... and {len(sentences) - QUOTED_LINES} sentences more, in the report.",)
    headline = one_line(verdict.headline, characters=_HEADLINE_CHARACTERS)
    return one_line(verdict.decision), (headline, *quoted)


def _newest_result(s3: S3Client, bucket: str, folder: str) -> float | None:
    pages = pages_of(s3, bucket, f"{folder}{results.BLOCKS_FOLDER}/")
    entries = [entry for page in pages for entry in page.get("Contents", [])]
    written = [e for e in entries if e["Key"].endswith(results.RESULT_SUFFIX)]
    return max((e["LastModified"].timestamp() for e in written), default=None)
