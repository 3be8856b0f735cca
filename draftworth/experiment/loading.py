"""Reads and checks an experiment file with its prompts, and reports all its problems at once.

Values that the file leaves out are worked out from its other keys and the prompts.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from draftworth.errors import Key, Problem, PromptSetError, UserInputError, suggestion
from draftworth.experiment.candidate_forecast import Forecast, read_forecast
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment, beside
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.experiment.rules import broken_rules
from draftworth.experiment.strict_model import PATTERN_WORDS, SET_NAME
from draftworth.experiment.validation_errors import json_excerpt, misspelt_key, shape_problems
from draftworth.experiment.yaml_source import ExperimentSource, read_source
from draftworth.records.prompt_files import CASE_SUFFIX, Case, load_case
from draftworth.untrusted import one_line


def read_prompt_sets(experiment: Experiment, path: Path) -> Iterator[Case | Problem]:
    """Yield the cases (prompt files) of each prompt class, and a `Problem` for each unusable one.

    path: of the experiment file. Cases have the order of the class's key `cases`, or else of their
    names.
    """
    work = experiment.workload
    root = beside(path, work.prompts_dir)
    # Not Path.is_dir(), which raises for a name that is too long.
    if not os.path.isdir(root):
        yield Problem(
            key=("workload", "prompts_dir"),
            actual=f'"{work.prompts_dir}"',
            allowed="a folder with one folder for each prompt class",
            reason=f"{root} is not a folder",
        )
        return
    for index, prompt_class in enumerate(work.classes):
        key = ("workload", "classes", index)
        if (root / prompt_class.name).is_dir():
            folder, named = root / prompt_class.name, prompt_class.cases
            yield from _cases((*key, "cases"), folder, named, work.output_tokens)
        else:
            class_names = sorted({file.parent.name for file in root.glob(f"*/*{CASE_SUFFIX}")})
            yield Problem(
                key=(*key, "name"),
                actual=f'"{prompt_class.name}"',
                allowed=", ".join(class_names) or "a folder name",
                reason=f"a prompt class is a folder in {work.prompts_dir}"
                + suggestion(prompt_class.name, class_names),
            )


def _cases(
    key: Key, folder: Path, named: tuple[str, ...] | None, most_tokens: int
) -> Iterator[Case | Problem]:
    case_names = sorted(p.stem for p in folder.glob(f"*{CASE_SUFFIX}"))
    if not case_names:
        yield Problem(
            key=key,
            actual=f"the empty folder {folder.name}",
            allowed=f"a folder with at least one {CASE_SUFFIX} file",
            reason="each file is a case; a class without cases measures nothing",
        )
    # A case is a file that ends with `.jsonl`. A user who names a file `x.JSONL` or `x.json` likely
    # means it as a case.
    misnamed = [
        p.name
        for p in folder.iterdir()
        if p.suffix != CASE_SUFFIX and p.suffix.lower() in (CASE_SUFFIX, ".json")
    ]
    for name in sorted(misnamed) if named is None else ():
        yield Problem(
            key=key,
            actual=f"the file {one_line(name)} in the folder {folder.name}",
            allowed=f"files that end with {CASE_SUFFIX}, one JSON object per line",
            reason="it would be ignored; rename it, or move it to another folder",
        )
    for index, case in enumerate(named or case_names):
        place = (*key, index) if named else key
        problem = _problem_of_name(place, folder, case, case_names)
        yield problem or _case(place, folder, case, most_tokens)


def _problem_of_name(key: Key, folder: Path, case: str, case_names: list[str]) -> Problem | None:
    if not re.fullmatch(SET_NAME, case):
        return Problem(
            key=key,
            actual=f'"{case}"',
            allowed=PATTERN_WORDS[SET_NAME],
            reason="a case's name is part of its result files' names",
        )
    if case not in case_names:
        return Problem(
            key=key,
            actual=f'"{case}"',
            allowed=", ".join(case_names),
            reason=f"no file {case}{CASE_SUFFIX} in the folder {folder.name}"
            + suggestion(case, case_names),
        )
    return None


def _case(key: Key, folder: Path, case: str, most_tokens: int) -> Case | Problem:
    path = folder / f"{case}{CASE_SUFFIX}"
    try:
        return load_case(path, prompt_class=folder.name, most_tokens=most_tokens)
    except PromptSetError as error:
        return Problem(
            key=key,
            actual=f"the prompt file {case}{CASE_SUFFIX}",
            allowed="JSON Lines with id and prompt, messages or text_to_continue",
            reason=str(error),
        )


@dataclass(frozen=True, kw_only=True)
class LoadedExperiment:
    """An experiment file's content and path, its prompts, and the forecast of its search.

    forecast: the candidates' expected tokens per step, as {variant name: {prompt class: tokens}};
        empty without `search.forecast`.
    """

    spec: Experiment
    path: Path
    cases: tuple[Case, ...]
    forecast: Forecast = field(default_factory=dict)


def load_experiment(path: Path) -> LoadedExperiment:
    """Read and check an experiment file, its prompts and the profile that `search.forecast` names.

    Raises:
        UserInputError: a file cannot be read.
        ExperimentError: with all problems of the first check that finds any. The checks are, in
            this order: YAML; release; keys and values; prompts and rules; the profile.
    """
    source = read_source(path)
    model = _model_for(source)
    # `repetitions` is 1 by default with a search; a pydantic default cannot depend on `search`.
    defaults = {"repetitions": 1} if source.data.get("search") is not None else {}
    try:
        spec: Experiment = model.model_validate({**defaults, **source.data})
    except ValidationError as error:
        raise source.refused(shape_problems(error, source.data, model)) from error
    try:
        read = list(read_prompt_sets(spec, path))
        cases = tuple(case for case in read if isinstance(case, Case))
        problems = [replace(p, code="prompts") for p in read if isinstance(p, Problem)]
        spec = with_defaults(spec, cases)
        # Candidates that come from the same key have equal problems, which are listed only once.
        problems += dict.fromkeys(broken_rules(spec, path, cases))
    except OSError as error:
        raise UserInputError(f"{path}: a file that it names: {one_line(str(error))}") from error
    if problems:
        raise source.refused(problems)
    forecast = read_forecast(spec, path)
    if isinstance(forecast, Problem):
        raise source.refused([replace(forecast, code="forecast")])
    return LoadedExperiment(spec=spec, path=path, cases=cases, forecast=forecast)


def experiment_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of experiment files, for editors."""
    return {**TypeAdapter(Experiment).json_schema(), "title": "draftworth experiment"}


def _model_for(source: ExperimentSource) -> type[NeuronExperiment] | type[LocalExperiment]:
    release, releases = source.data.get("release"), catalog().releases
    if isinstance(release, str) and release in releases:
        return NeuronExperiment if releases[release].platform == "neuron" else LocalExperiment
    is_there = "release" in source.data
    nearest = suggestion(release, releases) if is_there else misspelt_key("release", source.data)
    problem = Problem(
        code="unknown-release",
        key=("release",),
        actual=json_excerpt(release) if is_there else "nothing",
        allowed=", ".join(releases),
        reason="the release names the serving image and with it what can be served" + nearest,
    )
    raise source.refused([problem])


# The default of `serving.max_num_seqs` is the highest concurrency of the loads, but at least this,
# which is the value in `experiments/qwen3-32b.yaml`.
_LEAST_SEQUENCES = 4
_MODEL_LEN_STEP = 1024
# Room for the chat template of a prompt, in tokens.
_TEMPLATE_TOKENS = 32


def with_defaults(spec: Experiment, cases: Sequence[Case]) -> Experiment:
    """Return the experiment with defaults that depend on its other keys or its prompts (`cases`).

    Only keys that the file leaves out get such a value.
    """
    work, serving = spec.workload, spec.serving
    work = work.model_copy(update={"input_tokens": work.input_tokens or _longest_prompt(cases)})
    total = work.most_input_tokens + work.output_tokens
    defaults = {
        "max_num_seqs": max((_LEAST_SEQUENCES, *work.concurrencies)),
        "max_model_len": -(-total // _MODEL_LEN_STEP) * _MODEL_LEN_STEP,
    }
    if isinstance(spec, NeuronExperiment):
        defaults["slot_devices"] = max(1, spec.accelerator.devices // 2)
        spec = _on_fitting_nodes(spec)
    left_out = {name: value for name, value in defaults.items() if not getattr(serving, name)}
    return spec.model_copy(
        update={"workload": work, "serving": serving.model_copy(update=left_out)}
    )


def _on_fitting_nodes(spec: NeuronExperiment) -> NeuronExperiment:
    """Return the experiment, with an older release of the node images if the newest does not work.

    EKS's newest release does not work if its Neuron driver does not fit the Neuron runtime of the
    serving image. Then the newest known release whose driver fits is pinned, unless the experiment
    pins a release itself.
    """
    pair, pins = DriverAndRuntime.of(spec), spec.aws.pins
    if pins.node_release or not pair.why_unfit:
        return spec
    fitting = next(pair.fitting_releases(spec.aws.kubernetes_version), None)
    pins = pins.model_copy(update={"node_release": fitting})
    return spec.model_copy(update={"aws": spec.aws.model_copy(update={"pins": pins})})


def _longest_prompt(cases: Sequence[Case]) -> int:
    """Estimate the tokens of the longest prompt: half of its bytes as JSON, plus a chat template's.

    Most text has fewer tokens; long rows of digits may have more.
    """
    sent = ((p.messages or p.text_to_continue, p.tools) for case in cases for p in case.prompts)
    sizes = (len(json.dumps(s, ensure_ascii=False, default=dict).encode()) for s in sent)
    return max(sizes, default=0) // 2 + _TEMPLATE_TOKENS
