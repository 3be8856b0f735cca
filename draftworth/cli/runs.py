"""Arguments that name a run in a folder or in S3, or a place with many runs."""

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from draftworth.errors import UserInputError
from draftworth.records.reading import parse_s3_url
from draftworth.records.results import RUNS_FOLDER

# The domain does not import AWS's library: these modules are loaded for runs in S3 alone.
_S3_SOURCE = "draftworth.account.s3"
_RUN_LIST = "draftworth.account.run_list"
_EXPERIMENT_FILES = (".yaml", ".yml")
S3_SCHEME = "s3://"
RUN_WORDS = "folder of one run (it holds run.json), or s3://BUCKET/PREFIX of one"
RUN_LIST_WORDS = f"s3://BUCKET, s3://BUCKET/{RUNS_FOLDER} or an experiment file: lists its runs"


@contextmanager
def local_run(run_at: str) -> Iterator[Path]:
    """Yield the run's folder; for a run in S3 a copy, which is deleted afterwards."""
    if not run_at.startswith(S3_SCHEME):
        yield Path(run_at)
        return
    with tempfile.TemporaryDirectory(prefix="draftworth-") as folder:
        importlib.import_module(_S3_SOURCE).download_run(run_at, Path(folder))
        try:
            yield Path(folder)
        except UserInputError as error:
            raise UserInputError(str(error).replace(folder, run_at.rstrip("/"))) from error


def run_list(runs_at: str) -> Iterator[str] | None:
    """Return lines that list the runs of an experiment or a bucket; None for one run's argument."""
    if runs_at.endswith(_EXPERIMENT_FILES) and not runs_at.startswith(S3_SCHEME):
        of_experiment = importlib.import_module(_RUN_LIST).lines_of_experiment
        return cast(Iterator[str], of_experiment(Path(runs_at)))
    if not runs_at.startswith(S3_SCHEME):
        return None
    _, prefix = parse_s3_url(runs_at)
    if prefix.strip("/").rpartition("/")[2] not in ("", RUNS_FOLDER):
        return None
    of_address = importlib.import_module(_RUN_LIST).lines_of_address
    return cast("Iterator[str] | None", of_address(runs_at))
