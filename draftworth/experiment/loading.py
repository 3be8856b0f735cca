"""From a YAML file to a checked experiment with its prompts, or to every problem it has.

`load_experiment` is the only way in. Problems of shape (`validation_errors`), of the prompt files
(`prompt_sets`) and of meaning (`rules`) come out in one form, each with its line in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from draftworth.errors import Problem, UserInputError, suggestion
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.prompt_sets import read_prompt_sets
from draftworth.experiment.rules import broken_rules
from draftworth.experiment.validation_errors import misspelt_key, shape_problems, shown
from draftworth.experiment.yaml_source import Source, read_source
from draftworth.records.prompts import Case
from draftworth.untrusted import one_line


@dataclass(frozen=True, kw_only=True)
class LoadedExperiment:
    """All that was read: the file's content, where it lies, and the prompts that it names."""

    spec: Experiment
    path: Path
    cases: tuple[Case, ...]


def load_experiment(path: Path) -> LoadedExperiment:
    """Read and check an experiment file and its prompts.

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
    return LoadedExperiment(spec=spec, path=path, cases=cases)


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
