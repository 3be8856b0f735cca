"""Rules of an experiment that need more than one key, the catalogue or the disk to be checked.

Each rule yields a `Problem` for everything that would fail on AWS or make a comparison unfair, so
that users learn about it in a second and without cost. A problem's code is the rule's name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVarTuple, Unpack

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.rules import aws, models, search, serving, variants, workload
from draftworth.records.prompts import Case

Given = TypeVarTuple("Given")

COMMON = (*variants.COMMON, *workload.COMMON, *serving.COMMON)
NEURON = (*models.NEURON, *serving.NEURON, *aws.NEURON)


def broken_rules(experiment: Experiment, path: Path, cases: Sequence[Case]) -> Iterator[Problem]:
    """Yield the problems that all rules find in a validated experiment and its prompts."""
    yield from _problems(COMMON, experiment)
    if experiment.search:
        yield from _problems(search.OF_A_SEARCH, experiment, experiment.search)
    yield from _problems(workload.OF_PROMPTS, experiment, cases)
    if isinstance(experiment, NeuronExperiment):
        yield from _problems(NEURON, experiment)
        yield from _problems(workload.NEURON_OF_PROMPTS, cases)
    else:
        yield from _problems(models.LOCAL, experiment, path)


def _problems(
    rules: Sequence[Callable[[Unpack[Given]], Iterator[Problem]]], *given: *Given
) -> Iterator[Problem]:
    for rule in rules:
        code = rule.__name__.strip("_").replace("_", "-")
        for problem in rule(*given):
            yield replace(problem, code=code)
