"""What `draftworth init --from` names: a run, a folder of prompts, or a log of requests."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from draftworth.cli.arguments import S3_SCHEME, local_run
from draftworth.errors import UserInputError, path_suggestion
from draftworth.experiment.strict_model import MAX_NAME_LENGTH
from draftworth.importing.json_objects import records_of
from draftworth.importing.prompt_sets import ImportOrder, as_name
from draftworth.records.results import RUN_FILE
from draftworth.records.run_folder import Run, read_run
from draftworth.untrusted import one_line

# A log may have millions of records; a service that changes its models later is not seen.
_READ_RECORDS = 1000


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """What `--from` names; one field is set, or none without `--from`.

    run: the content of the run's folder. prompts: the folder of several prompt classes or of one.
    log: the file of a service's log.
    """

    run: Run | None = None
    prompts: Path | None = None
    log: Path | None = None

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models that the run or the log names, each once; a log's first records are read."""
        if self.run is not None:
            facts = self.run.result.serving
            names = [facts.target_model] if facts else [block.model for block in self.run.blocks]
        elif self.log is not None:
            records = islice(records_of(self.log), _READ_RECORDS)
            names = [name for record in records if (name := _model_in(record.value))]
        else:
            names = []
        return tuple(dict.fromkeys(names))


def _model_in(value: Mapping[str, Any]) -> str:
    """Return the `model` of a record, its request or its answer; empty: it names none."""
    parts = (value, *(value.get(key) for key in ("request", "response", "body")))
    for part in parts:
        model = part.get("model") if isinstance(part, dict) else None
        if isinstance(model, str) and model.isprintable() and model:
            return model
    return ""


def read_starting_point(at: str | None) -> StartingPoint:
    """Return what is at a path or s3:// address.

    at: the value of `--from`; None: it is not given. UserInputError: there is nothing at this
    place, or a run that cannot be read.
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
        return StartingPoint(log=path)
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
