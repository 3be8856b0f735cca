"""Rules of an experiment that need more than one key, the catalogue or the disk to be checked.

Each rule yields a `Problem` for everything that would fail on AWS or make a comparison unfair, so
that users learn of the problem in a second, free of charge. A problem's code is the rule's name.

A rule is a function in a module of this package that yields problems. The types of its parameters
tell what it gets: the experiment, its search, its prompts or the file's path. A rule is skipped if
it takes a search and there is none, or if it takes an experiment of the other kind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment
from draftworth.experiment.rules import aws, models, search, serving, variants, workload
from draftworth.experiment.search import Search
from draftworth.records.prompts import Case

RULES = tuple(
    function
    for module in (variants, workload, serving, search, models, aws)
    for function in vars(module).values()
    if getattr(function, "__annotations__", {}).get("return") == Iterator[Problem]
)


def broken_rules(experiment: Experiment, path: Path, cases: Sequence[Case]) -> Iterator[Problem]:
    """Yield the problems that all rules find in a validated experiment and its prompts."""
    given: dict[Any, Any] = {Experiment: experiment, Path: path, Sequence[Case]: cases}
    given[type(experiment)] = experiment
    if experiment.search:
        given[Search] = experiment.search
    for rule in RULES:
        kinds = [kind for name, kind in rule.__annotations__.items() if name != "return"]
        if given.keys() >= {*kinds}:
            for problem in rule(*(given[kind] for kind in kinds)):
                yield replace(problem, code=code_of(rule.__name__))


def code_of(rule: str) -> str:
    """Return the code that a rule's problems have: the function `_one_load` has `one-load`."""
    return rule.strip("_").replace("_", "-")
