"""From a YAML file to a checked experiment with its prompts, or to every problem that it has.

`load_experiment` is the only way in. Problems of shape (`validation_errors`), of the prompt files
(`prompt_sets`) and of meaning (`rules`) come out in one form, each with its line in the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from draftworth.errors import Key, Problem, PromptSetError, UserInputError, suggestion
from draftworth.experiment.catalog import catalog
from draftworth.experiment.forecast import Forecast, read_forecast
from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment, beside
from draftworth.experiment.rules import broken_rules
from draftworth.experiment.strict import PATTERN_WORDS, SET_NAME_PATTERN
from draftworth.experiment.validation_errors import misspelt_key, shape_problems, shown
from draftworth.experiment.yaml_source import Source, read_source
from draftworth.records.prompts import CASE_SUFFIX, Case, load_case
from draftworth.untrusted import one_line


def read_prompt_sets(experiment: Experiment, path: Path) -> Iterator[Case | Problem]:
    """Class by class in the file's order, cases in name order unless the file names them."""
    work = experiment.workload
    root = beside(path, work.prompts_dir)
    # Not Path.is_dir(), which raises for a name that is too long.
    if not os.path.isdir(root):
        yield Problem(
            key=("workload", "prompts_dir"),
            given=f'"{work.prompts_dir}"',
            allowed="a folder with one folder a prompt class",
            reason=f"{root} is not a folder",
        )
        return
    for index, prompt_class in enumerate(work.classes):
        key = ("workload", "classes", index)
        if (root / prompt_class.name).is_dir():
            folder, named = root / prompt_class.name, prompt_class.cases
            yield from _cases((*key, "cases"), folder, named, work.output_tokens)
        else:
            known = sorted(p.name for p in root.glob("*/"))
            yield Problem(
                key=(*key, "name"),
                given=f'"{prompt_class.name}"',
                allowed=", ".join(known) or "a folder name",
                reason=f"a prompt class is a folder in {work.prompts_dir}"
                + suggestion(prompt_class.name, known),
            )


def _cases(
    key: Key, folder: Path, named: tuple[str, ...] | None, most_tokens: int
) -> Iterator[Case | Problem]:
    known = sorted(p.stem for p in folder.glob(f"*{CASE_SUFFIX}"))
    if not known:
        yield Problem(
            key=key,
            given=f"the empty folder {folder.name}",
            allowed=f"a folder with at least one {CASE_SUFFIX} file",
            reason="each file is a case; a class without cases measures nothing",
        )
    others = [p.name for p in folder.iterdir() if _is_meant_as_case(p)]
    for name in sorted(others) if named is None else ():
        yield Problem(
            key=key,
            given=f"the file {one_line(name)} in the folder {folder.name}",
            allowed=f"files that end with {CASE_SUFFIX}, one JSON object a line",
            reason="it would be left out without a word; rename it, or put it elsewhere",
        )
    for index, case in enumerate(named or known):
        place = (*key, index) if named else key
        problem = _problem_of_name(place, folder, case, known)
        yield problem or _case(place, folder, case, most_tokens)


def _problem_of_name(key: Key, folder: Path, case: str, known: list[str]) -> Problem | None:
    if not re.fullmatch(SET_NAME_PATTERN, case):
        return Problem(
            key=key,
            given=f'"{case}"',
            allowed=PATTERN_WORDS[SET_NAME_PATTERN],
            reason="a case's name is part of its result files' names",
        )
    if case not in known:
        return Problem(
            key=key,
            given=f'"{case}"',
            allowed=", ".join(known),
            reason=f"no file {case}{CASE_SUFFIX} in the folder {folder.name}"
            + suggestion(case, known),
        )
    return None


def _case(key: Key, folder: Path, case: str, most_tokens: int) -> Case | Problem:
    path = folder / f"{case}{CASE_SUFFIX}"
    try:
        return load_case(path, prompt_class=folder.name, most_tokens=most_tokens)
    except PromptSetError as error:
        return Problem(
            key=key,
            given=f"the prompt file {case}{CASE_SUFFIX}",
            allowed="JSON Lines with id and prompt, messages or text_to_continue",
            reason=str(error),
        )


def _is_meant_as_case(path: Path) -> bool:
    """`x.JSONL`, `x.json`: not a case's name, and hardly anything else."""
    return path.suffix != CASE_SUFFIX and path.suffix.lower() in (CASE_SUFFIX, ".json")


@dataclass(frozen=True, kw_only=True)
class LoadedExperiment:
    """All that was read: the file's content, where it lies, the prompts and the forecast that it
    names."""

    spec: Experiment
    path: Path
    cases: tuple[Case, ...]
    forecast: Forecast = field(default_factory=dict)


def load_experiment(path: Path) -> LoadedExperiment:
    """Read and check an experiment file, its prompts and its forecast.

    Raises:
        ExperimentError: with every problem found, each with line, key, given, allowed and reason.
        UserInputError: the file cannot be read.
    """
    source = read_source(path)
    model = _model_for(source)
    try:
        spec = model.model_validate_json(json.dumps(_with_defaults(source.data), default=str))
    except ValidationError as error:
        raise source.refused(shape_problems(error, source.data, model)) from error
    try:
        read = list(read_prompt_sets(spec, path))
        cases = tuple(case for case in read if isinstance(case, Case))
        problems = [problem for problem in read if isinstance(problem, Problem)]
        # Candidates that share a part of the search share what is wrong with it.
        problems += dict.fromkeys(broken_rules(spec, path, cases))
    except OSError as error:
        raise UserInputError(f"{path}: a file that it names: {one_line(str(error))}") from error
    if problems:
        raise source.refused(problems)
    forecast = read_forecast(spec, path)
    if isinstance(forecast, Problem):
        raise source.refused([forecast])
    return LoadedExperiment(spec=spec, path=path, cases=cases, forecast=forecast)


def experiment_json_schema() -> dict[str, Any]:
    """The JSON Schema of experiment files, for editors."""
    return {**TypeAdapter(Experiment).json_schema(), "title": "draftworth experiment"}


def _with_defaults(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the file leaves out and another key of it decides: a search measures once."""
    return {"repetitions": 1, **data} if data.get("search") is not None else data


def _model_for(source: Source) -> type[NeuronExperiment] | type[LocalExperiment]:
    """The release's platform decides which sections the file must have."""
    given, releases = source.data.get("release"), catalog().releases
    if isinstance(given, str) and given in releases:
        return NeuronExperiment if releases[given].platform == "neuron" else LocalExperiment
    is_there = "release" in source.data
    nearest = suggestion(given, releases) if is_there else misspelt_key("release", source.data)
    problem = Problem(
        key=("release",),
        given=shown(given) if is_there else "nothing",
        allowed=", ".join(releases),
        reason="the release names the serving image and with it what can be served" + nearest,
    )
    raise source.refused([problem])
