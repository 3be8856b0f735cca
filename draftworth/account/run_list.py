"""Lists the runs of results buckets, newest first, each with the command that shows it.

Of each run only `run.json` is read. It is validated as strictly as `draftworth report` validates
it, because anything may have been written into a bucket.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from draftworth import errors, terminal, untrusted
from draftworth.account.clients import client, explained, listed, or_none, tags_of_bucket
from draftworth.account.printing import utc_text
from draftworth.experiment.naming import EXPERIMENT_TAG, HOLDS_TAG, PROJECT, RESULTS, RUNS_PREFIX
from draftworth.planning.resolved import load_neuron
from draftworth.records import codec, results, run_folder

MOST_RUNS = 1_000
# At most this many pages of S3's listing are read. A page has 1,000 names, of folders (runs) and of
# files, so MOST_RUNS runs may need more than one page.
_MOST_PAGES = 10
_PARALLEL_READS = 8
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_HEADINGS = ("begun", "status", "experiment", "blocks", "run")
_REASON_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run in a results bucket, with facts of its `run.json`.

    address: the run's folder, as `s3://BUCKET/FOLDER`.
    begun: the run's start; if no `run.json` can be read, the time at which a file was stored.
    blocks: number of result files; None: unknown. reason: why the run has this status, or empty.
    """

    address: str
    begun: datetime
    status: str
    experiment: str = "-"
    blocks: int | None = None
    reason: str = ""


def lines_of_experiment(path: Path) -> Iterator[str]:
    """Yield lines that list the runs in all results buckets of the experiment in file `path`.

    Each deploy after a destroy has a bucket of its own. DraftworthError is raised if there is none.
    """
    experiment = load_neuron(path)
    region = experiment.spec.aws.region
    s3 = client("s3", region)
    with explained("list the results buckets", region=region):
        wanted = {EXPERIMENT_TAG: experiment.name, HOLDS_TAG: RESULTS}
        names = listed(s3, "list_buckets", "Buckets[].Name")
        ours = [name for name in names if name.startswith(f"{PROJECT}-")]
        buckets = [name for name in ours if wanted.items() <= tags_of_bucket(s3, name).items()]
    if not buckets:
        raise errors.DraftworthError(
            f"{path}: no results bucket of experiment {experiment.name} in this account; next: "
            f"`make deploy EXPERIMENT={path}`, or credentials of the account that it ran in"
        )
    for bucket in buckets:
        yield from lines(s3, bucket, RUNS_PREFIX)


def lines_of_address(url: str) -> Iterator[str] | None:
    """Return lines that list the runs below `s3://BUCKET[/PREFIX]`; None if `url` is one run."""
    bucket, prefix = run_folder.parse_s3_url(url)
    start = f"{prefix.strip('/')}/".lstrip("/")
    s3 = client("s3")
    with explained(f"read {url}"):
        answer = s3.list_objects_v2(Bucket=bucket, Prefix=f"{start}{results.RUN_FILE}", MaxKeys=1)
    if any(entry["Key"] == f"{start}{results.RUN_FILE}" for entry in answer.get("Contents", ())):
        return None
    return lines(s3, bucket, start or RUNS_PREFIX)


def lines(s3: Any, bucket: str, folder: str) -> Iterator[str]:
    """Yield lines that list the runs in a bucket's folder, newest first.

    folder: the prefix of the runs, with a trailing slash. AwsError: S3 cannot be read.
    """
    address = f"s3://{bucket}/{folder}"
    with explained(f"read {address}"), ThreadPoolExecutor(_PARALLEL_READS) as pool:
        folders, complete = _folders(s3, bucket, folder)
        names = [name for name in folders if _RUN_NAME.fullmatch(name)]
        listed_runs = pool.map(lambda name: _listed_run(s3, bucket, f"{folder}{name}/"), names)
        runs = sorted(listed_runs, key=lambda run: run.begun, reverse=True)
    yield f"{address}: {errors.counted(len(runs), 'run') if runs else 'no runs'}"
    if runs:
        rows = (_row(run) for run in runs)
        yield from (f"  {line}" for line in terminal.table_lines(rows, _HEADINGS, numbers=(3,)))
    if len(folders) > len(runs):
        yield f"  not looked at: {len(folders) - len(runs)} folders with names that no run has"
    if not complete:
        yield (
            f"  more than {MOST_RUNS:,} folders: these are the first by name; another run: "
            f"draftworth report {shlex.quote(address)}RUN"
        )


def _folders(s3: Any, bucket: str, folder: str) -> tuple[Sequence[str], bool]:
    arguments = {"Bucket": bucket, "Prefix": folder, "Delimiter": "/"}
    every_page = s3.get_paginator("list_objects_v2").paginate(**arguments)
    pages = list(islice(every_page, _MOST_PAGES))
    folders = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", ())]
    complete = len(folders) <= MOST_RUNS and not pages[-1]["IsTruncated"]
    return [name[len(folder) : -1] for name in folders[:MOST_RUNS]], complete


def _listed_run(s3: Any, bucket: str, folder: str) -> ListedRun:
    address = f"s3://{bucket}/{folder.rstrip('/')}"
    stored = or_none(s3.get_object, "NoSuchKey", Bucket=bucket, Key=f"{folder}{results.RUN_FILE}")
    if stored is None:
        first = s3.list_objects_v2(Bucket=bucket, Prefix=folder, MaxKeys=1).get("Contents", ())
        begun = first[0]["LastModified"] if first else datetime.now(UTC)
        return ListedRun(address=address, begun=begun, status="not over")
    try:
        run = codec.load_record(results.RunResult, untrusted.read_at_most(stored["Body"]))
    except (codec.RecordError, untrusted.TooLargeError) as error:
        begun, reason = stored["LastModified"], f"{results.RUN_FILE}: {error}"
        return ListedRun(address=address, begun=begun, status="cannot be read", reason=reason)
    return ListedRun(
        address=address,
        begun=datetime.fromtimestamp(run.started_at_unix_s, UTC),
        status=run.status,
        experiment=run.experiment,
        blocks=len(run.blocks),
        reason=run.reason,
    )


def _row(run: ListedRun) -> tuple[str, ...]:
    last = [run.address.rpartition("/")[2]]
    if run.reason:
        last.append(f"why: {untrusted.one_line(run.reason, characters=_REASON_CHARACTERS)}")
    if run.blocks is not None:
        last.append(f"show: draftworth report {shlex.quote(run.address)}")
    blocks = "-" if run.blocks is None else str(run.blocks)
    experiment = untrusted.one_line(run.experiment, characters=60)
    return utc_text(run.begun), run.status, experiment, blocks, "\n".join(last)
