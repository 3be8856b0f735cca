"""Reading a run back from its folder, and the address of one in S3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, load_record
from draftworth.records.results import (
    BLOCKS_FOLDER,
    RESULT_SUFFIX,
    RUN_FILE,
    BlockResult,
    RunResult,
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's end and its blocks, in the order of measuring."""

    result: RunResult
    blocks: tuple[BlockResult, ...]


def read_run(folder: Path) -> Run:
    """Read a run's folder.

    Raises:
        UserInputError: there is no run, or one of its files is not what it should be.
    """
    run_file = folder / RUN_FILE
    if not run_file.is_file():
        raise UserInputError(
            f"{folder}: no {RUN_FILE} there: give the folder of one run, which holds {RUN_FILE} "
            f"and {BLOCKS_FOLDER}/; a run without {RUN_FILE} is not over"
        )
    files = sorted((folder / BLOCKS_FOLDER).glob(f"*{RESULT_SUFFIX}"))
    file = run_file
    try:
        result = load_record(RunResult, run_file.read_bytes())
        blocks = []
        for file in files:
            blocks.append(load_record(BlockResult, file.read_bytes()))
    except RecordError as error:
        raise UserInputError(f"{file}: not a result file of this version: {error}") from error
    missing = sorted(set(result.blocks) - {block.stem for block in blocks})
    if missing:
        raise UserInputError(
            f"{folder}: {len(missing)} of {len(result.blocks)} result files are missing, the first "
            f"is {missing[0]}{RESULT_SUFFIX}; copy the whole run"
        )
    return Run(result=result, blocks=tuple(blocks))


def parse_s3_url(url: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://BUCKET/PREFIX`; raises UserInputError when it is not one."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or not bucket:
        raise UserInputError(
            f"given {url!r}, allowed: s3://BUCKET/PREFIX, for example s3://my-results/runs"
        )
    return bucket, prefix
