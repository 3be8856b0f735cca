"""A run that an argument names: a folder, or a copy of one in S3."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftworth.errors import UserInputError

# The domain does not know AWS: who reads S3 is looked up when a run lies there.
_S3_SOURCE = "account.s3_source"
S3_SCHEME = "s3://"
RUN_WORDS = "folder of one run (it holds run.json), or s3://BUCKET/PREFIX of one"


@contextmanager
def local_run(run_at: str) -> Iterator[Path]:
    """The run's folder; of a run in S3 a copy, while the context lasts."""
    if not run_at.startswith(S3_SCHEME):
        yield Path(run_at)
        return
    with tempfile.TemporaryDirectory(prefix="draftworth-") as folder:
        importlib.import_module(_S3_SOURCE).download_run(run_at, Path(folder))
        try:
            yield Path(folder)
        except UserInputError as error:
            raise UserInputError(str(error).replace(folder, run_at.rstrip("/"))) from error
