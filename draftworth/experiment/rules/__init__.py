"""Rules of an experiment that need more than one key, the catalogue or the disk.

Each rule yields a `Problem` for everything that would go wrong on AWS or make a comparison unfair,
so that it goes wrong here instead, in a second and for nothing. THE home of such rules: a new one
is a function in the module of its section, named in that module's tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.rules import aws, models, search, serving, variants, workload
from draftworth.records.prompts import Case

COMMON = (*variants.COMMON, *search.COMMON, *workload.COMMON, *serving.COMMON)
NEURON = (*models.NEURON, *serving.NEURON, *aws.NEURON)
LOCAL = models.LOCAL


def broken_rules(experiment: Experiment, path: Path, cases: Sequence[Case]) -> Iterator[Problem]:
    """Every problem of a well-formed experiment read from `path` with its prompts."""
    for common in COMMON:
        yield from common(experiment)
    for of_prompts in workload.OF_PROMPTS:
        yield from of_prompts(experiment, cases)
    if isinstance(experiment, NeuronExperiment):
        for neuron in NEURON:
            yield from neuron(experiment)
        yield from workload.fit_the_load_generator(cases)
    if isinstance(experiment, LocalExperiment):
        for local in LOCAL:
            yield from local(experiment, path)
