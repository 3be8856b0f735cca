"""Reads the folder of a `measure` or `compare` run that did not end, so that it can be continued.

Such a run keeps its run specification in its folder, so a later process needs nothing else to
continue it. A folder may come from anybody, so names and figures are checked before they are used.
"""

import fcntl
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring import final_files
from draftworth.measuring.journal import JOURNAL_FOLDER, BlockKey, History, read_history
from draftworth.measuring.result_files import FolderSink, SinkError
from draftworth.measuring.run_specification import LIMIT_BYTES, RunSpec
from draftworth.records import results
from draftworth.records.codec import RecordError, dump_record, load_object, load_record
from draftworth.records.prompt_files import is_plain_name
from draftworth.records.run_folder import Run, read_run
from draftworth.untrusted import TooLargeError, one_line, open_file, read_at_most

# The commands whose runs can be continued. In the specification of such a run, `experiment` is the
# command's name.
COMMANDS = ("compare", "measure")
_VALUE_CHARACTERS = 80


@dataclass(frozen=True, kw_only=True)
class BegunRun:
    """A run that has begun, and may not have ended.

    folder: the run's folder; the path has no symbolic links. history: what its files contain.
    """

    folder: Path
    spec: RunSpec
    history: History

    @property
    def resume_command(self) -> str:
        return resume_command(self.spec, self.folder)


def resume_command(spec: RunSpec, folder: Path) -> str:
    """Return the command that continues the run in `folder`."""
    return f"draftworth {spec.experiment} --resume {shlex.quote(str(folder))}"


def keep_specification(sink: FolderSink, run_id: str, spec: RunSpec) -> None:
    """Write the run specification into the run's folder; a specification contains no API key."""
    sink.write(f"{run_id}/{results.SPECIFICATION_FILE}", dump_record(spec))


def read_begun_run(folder: Path) -> BegunRun:
    """Read the folder of a run that may not have ended.

    UserInputError: the folder holds no run, or a file in it cannot be read or is not of this run.
    """
    folder = folder.resolve()
    spec = _read_specification(folder / results.SPECIFICATION_FILE)
    _refuse_links(folder)
    try:
        history = read_history(FolderSink(folder.parent), folder.name)
    except SinkError as error:
        raise UserInputError(str(error)) from error
    except DraftworthError as error:  # its text begins with the name of the run's folder
        raise UserInputError(f"{folder.parent}/{error}") from error
    _check_blocks(folder, spec, history)
    return BegunRun(folder=folder, spec=spec, history=history)


def _refuse_links(folder: Path) -> None:
    # The run's files are neither read nor written through a symbolic link. If one of these folders
    # were a link, its finished blocks would seem to be missing and would be measured again.
    for name in (results.BLOCKS_FOLDER, results.INTERRUPTED_FOLDER, JOURNAL_FOLDER):
        if (folder / name).is_symlink():
            raise UserInputError(
                f"{folder / name} is a link, allowed: a folder of the run's own; next: put the "
                "folder itself in its place"
            )


def _read_specification(path: Path) -> RunSpec:
    try:
        with open_file(path) as file:
            spec = load_record(RunSpec, read_at_most(file, LIMIT_BYTES))
    except OSError as error:
        raise UserInputError(
            f"{one_line(str(path))}: cannot be read: {error.strerror}; allowed: the folder of a "
            f"run of {' or '.join(COMMANDS)}"
        ) from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(f"{path}: not a run specification: {error}") from error
    if problem := _problem_of(spec):
        raise UserInputError(f"{path}: {problem}")
    return spec


def _problem_of(spec: RunSpec) -> str:
    """Return why `measure` and `compare` cannot have written `spec`; empty if one of them can."""
    if spec.experiment not in COMMANDS:
        return f"experiment: given {_quoted(spec.experiment)}, allowed: {' or '.join(COMMANDS)}"
    if sum(endpoint.is_baseline for endpoint in spec.endpoints) != 1:
        return "endpoints: allowed: one or more, exactly one of them the baseline's"
    variants = [endpoint.variant for endpoint in spec.endpoints]
    names = [*variants, *(name for case in spec.cases for name in (case.prompt_class, case.name))]
    for name in names:
        if not is_plain_name(name):
            return f"given the name {_quoted(name)}, allowed: names that can be parts of file names"
    for name in variants:
        if name in results.RESERVED_NAMES or variants.count(name) > 1:
            return (
                f"endpoints: given the name {_quoted(name)}, allowed: names that no other server "
                f"has, and none of {', '.join(results.RESERVED_NAMES)}"
            )
    return ""


def _quoted(text: str) -> str:
    return repr(one_line(text, characters=_VALUE_CHARACTERS))


def _check_blocks(folder: Path, spec: RunSpec, history: History) -> None:
    stems: set[str] = set()
    keys: set[BlockKey] = set()
    for block in history.blocks:
        name = f"{results.BLOCKS_FOLDER}/{block.stem}{results.RESULT_SUFFIX}"
        expected = history.blocks[0].run_id, spec.experiment
        is_of_run = (block.run_id, block.experiment) == expected and name in history.names
        if not is_of_run or block.stem in stems or BlockKey.of(block) in keys:
            raise UserInputError(
                f"{folder}: given {_quoted(name)}, which is not of this run or measured twice, "
                "allowed: the run's own files; next: copy them again"
            )
        stems.add(block.stem)
        keys.add(BlockKey.of(block))


def read_run_so_far(folder: Path) -> Run:
    """Read a run's folder; a run that did not end counts as failed, with its finished blocks.

    UserInputError: the folder cannot be read as a run; or the run did not end, and none of its
    blocks is finished or its journal is missing.
    """
    files = (results.RUN_FILE, results.SPECIFICATION_FILE)
    if [(folder / name).is_file() for name in files] != [False, True]:
        return read_run(folder)
    begun = read_begun_run(folder)
    blocks, entries = begun.history.blocks, begun.history.entries
    if not blocks:
        raise UserInputError(
            f"{folder}: the run did not end, and no block of it is finished; next: "
            f"{begun.resume_command}"
        )
    if not entries:
        raise UserInputError(
            f"{folder}: given without {JOURNAL_FOLDER}/, allowed: with it; next: copy the whole "
            "folder of the run"
        )
    try:
        result = final_files.run_result(
            begun.spec,
            blocks,
            entries,
            run_id=blocks[0].run_id,
            reason=f"the run did not end, or lasts still; next: {begun.resume_command}",
            ended_at_unix_s=max(
                *(block.ended_at_unix_s for block in blocks),
                *(entry.ended_at_unix_s for entry in entries),
            ),
            scheduling="",
            shortened="",
        )
    except ValueError as error:
        raise UserInputError(f"{folder}: the files of the run do not agree: {error}") from error
    return Run(result=result, blocks=blocks)


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Lock a run's folder during the `with` block; UserInputError: another process measures it."""
    with open_file(folder / results.SPECIFICATION_FILE) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserInputError(
                f"--resume: {folder}: the run is still measured, by another process; next: wait "
                "until it ends, or end it"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield


def refuse_other_run(spec: RunSpec, begun: BegunRun) -> None:
    """Raise UserInputError if `spec` is not the specification with which the run began.

    The error names the first difference. begun: the run that is to be continued.
    """
    options, recorded = (load_object(dump_record(one)) for one in (spec, begun.spec))
    if different := list(_differences(options, recorded, "")):
        more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
        raise UserInputError(
            f"--resume: {begun.folder}: {different[0]}, as the run began{more}; next: leave out "
            f"what the run has recorded: {begun.resume_command}"
        )


def _differences(option: Any, recorded: Any, key: str) -> Iterator[str]:
    if option == recorded:
        return
    if isinstance(option, dict) and isinstance(recorded, dict):
        for name in dict.fromkeys((*option, *recorded)):
            inner = f"{key}.{name}" if key else name
            yield from _differences(option.get(name), recorded.get(name), inner)
    elif _have_same_length(option, recorded):
        for number, pair in enumerate(zip(option, recorded, strict=True)):
            yield from _differences(*pair, f"{key}[{number}]")
    else:
        texts = (one_line(repr(v), characters=_VALUE_CHARACTERS) for v in (option, recorded))
        yield "{}: given {}, allowed: {}".format(key, *texts)


def _have_same_length(option: Any, recorded: Any) -> bool:
    both: Sequence[Any] = (option, recorded)
    return all(isinstance(one, list) for one in both) and len(option) == len(recorded)
