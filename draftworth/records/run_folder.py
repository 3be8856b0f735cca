"""Reads a run from its folder, and parses the address of a run in S3.

A folder may come from anybody, or be copied in part. So only the files that `run.json` lists are
read, each must contain the ids of its run and block, and a file above our size limit is refused.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from draftworth.errors import UserInputError
from draftworth.records import results
from draftworth.records.allowed_steps import AllowedSteps, read_allowed_steps
from draftworth.records.codec import OtherVersionError, RecordError, load_record
from draftworth.records.likelihoods import ModelsCheck, read_likelihoods
from draftworth.records.search_result import SearchResult, read_search
from draftworth.untrusted import DOCUMENT_LIMIT_BYTES, TooLargeError, one_line, read_file

# The limit of usual file systems for one file name.
_LONGEST_NAME_BYTES = 255

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that is over, with its blocks in the order of measuring.

    unlisted: result files in the folder that `run.json` does not list; they are not read.
    likelihoods: likelihoods of the outputs under models; empty if they were not computed.
    allowed_steps: in which steps the run's outputs could have been yielded, for each run of a pool
        that has this file.
    search: the result of the run's search; None if the run had no search.
    class_weights: each prompt class's share of the output tokens (sum: 1), where the run is to be
        judged for another traffic than its experiment's; empty: `RunResult.class_weights` is used.
    """

    result: results.RunResult
    blocks: tuple[results.BlockResult, ...]
    unlisted: tuple[str, ...] = ()
    likelihoods: tuple[ModelsCheck, ...] = ()
    allowed_steps: tuple[AllowedSteps, ...] = ()
    search: SearchResult | None = None
    class_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_pool(self) -> bool:
        return any(block.run_id != self.result.run_id for block in self.blocks)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models in the requests, each once."""
        return tuple(dict.fromkeys(block.model for block in self.blocks))


def read_run(folder: Path) -> Run:
    """Read a run's folder; raise UserInputError if it has no run or a file is missing or wrong."""
    result = read_end(folder)
    missing = [n for n in sorted(result.blocks) if not os.path.lexists(_result_file(folder, n))]
    if missing:
        raise UserInputError(
            f"{folder}: {len(missing)} of {len(result.blocks)} result files are missing, the first "
            f"is {missing[0]}{results.RESULT_SUFFIX}; copy the whole run"
        )
    blocks = tuple(_read_block(folder, result, stem) for stem in sorted(result.blocks))
    listed = {f"{stem}{results.RESULT_SUFFIX}" for stem in result.blocks}
    present = {
        file.name for file in (folder / results.BLOCKS_FOLDER).glob(f"*{results.RESULT_SUFFIX}")
    }
    return Run(
        result=result,
        blocks=blocks,
        unlisted=tuple(sorted(present - listed)),
        likelihoods=read_likelihoods(folder, result.run_id),
        allowed_steps=read_allowed_steps(folder, result.run_id),
        search=read_search(folder, result.run_id),
    )


def read_end(folder: Path) -> results.RunResult:
    """Read only a run's `run.json`, which is written when the run ends.

    UserInputError is raised if the file is missing or wrong, or lists blocks by unsafe file names.
    """
    file = folder / results.RUN_FILE
    if not os.path.isfile(file):  # Path.is_file() raises for a path that is too long
        runs = folder.glob(f"*/{results.RUN_FILE}") if os.path.isdir(folder) else ()
        newest = max(runs, key=os.path.getmtime, default=None)
        here = f"; the newest in this folder: {one_line(str(newest.parent))}" if newest else ""
        raise UserInputError(
            f"{one_line(str(folder))}: no {results.RUN_FILE} there: give the folder of one run, "
            f"which holds {results.RUN_FILE} and {results.BLOCKS_FOLDER}/; a run without "
            f"{results.RUN_FILE} is not over{here}"
        )
    result = _read(results.RunResult, file, DOCUMENT_LIMIT_BYTES)
    if len(set(result.blocks)) < len(result.blocks):
        raise UserInputError(f"{file}: blocks: allowed: each block once")
    for stem in result.blocks:
        if not is_file_name(f"{stem}{results.TRANSCRIPT_SUFFIX}"):
            raise UserInputError(
                f"{file}: blocks: given {one_line(stem, characters=80)!r}, allowed: names of files "
                f"in {results.BLOCKS_FOLDER}/"
            )
    return result


def is_file_name(name: str) -> bool:
    """Return whether a file name is safe: printable, no `/`, not hidden, at most 255 bytes."""
    fits = len(os.fsencode(name)) <= _LONGEST_NAME_BYTES
    return fits and name.isprintable() and "/" not in name and not name.startswith(".")


def _result_file(folder: Path, stem: str) -> Path:
    return folder / results.BLOCKS_FOLDER / f"{stem}{results.RESULT_SUFFIX}"


def _read_block(folder: Path, run: results.RunResult, stem: str) -> results.BlockResult:
    file = _result_file(folder, stem)
    block = _read(results.BlockResult, file, results.RESULT_LIMIT_BYTES)
    for name, recorded, expected in (
        ("run_id", block.run_id, run.run_id),
        ("experiment", block.experiment, run.experiment),
        ("block", block.stem, stem),
    ):
        if recorded != expected:
            raise UserInputError(
                f"{file}: {name}: given {one_line(recorded, characters=80)!r}, allowed: "
                f"{one_line(expected, characters=80)!r}, as {results.RUN_FILE} and the file's "
                "name say; copy the run's own files"
            )
    return block


def _read(kind: type[T], file: Path, limit_bytes: int) -> T:
    try:
        return load_record(kind, read_file(file, limit_bytes))
    except OSError as error:
        raise UserInputError(f"{file}: cannot be read: {error.strerror}") from error
    except OtherVersionError as error:
        raise UserInputError(
            f"{file}: not a result file of this version: {error}, or measure again"
        ) from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(f"{file}: not a result file of this version: {error}") from error


def parse_s3_url(url: str) -> tuple[str, str]:
    """Split `s3://BUCKET/PREFIX` into bucket and prefix; raise UserInputError for other text."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or not bucket:
        raise UserInputError(
            f"given {url!r}, allowed: s3://BUCKET/PREFIX, for example s3://my-results/runs"
        )
    return bucket, prefix
