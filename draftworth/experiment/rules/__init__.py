"""Rules of an experiment that need more than one key, the catalogue or the disk to be checked.

Each rule yields a `Problem` for everything that would fail on AWS or make a comparison unfair, so
that users learn of the problem in a second, free of charge. A rule is a function in a module of
this package. A decorator from `registry.py` registers the function under a code, which messages
show.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment
from draftworth.experiment.rules.registry import RULES, Checked
from draftworth.records.prompt_files import Case

# Importing a module registers its rules. Problems on the same line of the file are listed in the
# order of these imports.
from draftworth.experiment.rules import variant_rules, workload_rules, serving_rules  # noqa: F401 # isort: skip
from draftworth.experiment.rules import search_rules, model_rules, aws_rules  # noqa: F401 # isort: skip


def broken_rules(experiment: Experiment, path: Path, cases: Sequence[Case]) -> Iterator[Problem]:
    """Yield the problems that all rules find in an experiment (with defaults) and its prompts.

    path: of the experiment file.
    """
    checked = Checked(experiment=experiment, path=path, cases=cases)
    for code, problems_of in RULES.items():
        for problem in problems_of(checked):
            yield replace(problem, code=code)
