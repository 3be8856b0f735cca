"""What `draftworth init --from` names: a run, a folder of prompts, or a log of requests."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from draftworth.cli.arguments import S3_SCHEME, local_run
from draftworth.errors import UserInputError, path_suggestion
from draftworth.experiment.strict_model import MAX_NAME_LENGTH
from draftworth.importing.prompt_sets import ImportOrder, as_name, models_named_in
from draftworth.records.results import RUN_FILE
from draftworth.records.run_folder import Run, read_run
from draftworth.untrusted import one_line


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """What `--from` names; one field is set, or none without `--from`.

    run: the content of the run's folder. prompts: the folder of several prompt classes or of one.
    log: the file of a service's log. log_format: its format, a key of `FORMATS`.
    """

    run: Run | None = None
    prompts: Path | None = None
    log: Path | None = None
    log_format: str = ""

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models that the run or the log names, each once; a log's first records are read."""
        if self.log is not None:
            return models_named_in(self.log, self.log_format)
        if self.run is None:
            return ()
        facts = self.run.result.serving
        names = [facts.target_model] if facts else [block.model for block in self.run.blocks]
        return tuple(dict.fromkeys(names))


def read_starting_point(at: str | None, *, log_format: str) -> StartingPoint:
    """Return what is at a path or s3:// address.

    at: the value of `--from`; None: it is not given. log_format: as in `StartingPoint`.
    UserInputError: there is nothing at this place, or a run that cannot be read.
    """
    if not at:
        return StartingPoint()
    path = Path(at)
    if not at.startswith(S3_SCHEME) and not os.path.lexists(path):
        raise UserInputError(
            f"--from: given {one_line(at)}, where nothing is{path_suggestion(path)}; allowed: the "
            "folder or s3:// address of a run, a folder of prompts, or a log file; next: correct "
            "the path"
        )
    if path.is_file():
        return StartingPoint(log=path, log_format=log_format)
    has_runs = (path / RUN_FILE).exists() or any(path.glob(f"*/{RUN_FILE}"))
    if path.is_dir() and not has_runs:
        return StartingPoint(prompts=path)
    with local_run(at) as folder:
        return StartingPoint(run=read_run(folder))


def import_order(log: Path, *, form: str, out: Path) -> ImportOrder:
    """Return the order to import a log's prompts as a new prompt class.

    The class gets the name of the log's file.

    form: the log's format, a key of `FORMATS`. out: the folder of all prompt classes.
    UserInputError: `out` already has a folder of that name.
    """
    name = as_name(Path(os.path.realpath(log)).stem)[:MAX_NAME_LENGTH]
    order = ImportOrder(source=log, format=form, out=out, prompt_class=name)
    if os.path.lexists(order.folder):
        raise UserInputError(
            f"{order.folder}: exists already, and the prompts of {log} would be written there; "
            f"next: --from {order.folder} for the prompts in it, or another --prompts"
        )
    return order
