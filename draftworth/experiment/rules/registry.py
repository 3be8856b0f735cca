"""Decorators that register the rules which an experiment must keep.

A rule is a function that yields a `Problem` for each value that breaks it, and has a code, which
users see. The decorator determines to which experiments the rule applies, and with which arguments
the function is called. Rules are checked in the order in which they are registered.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.search_settings import Search
from draftworth.records.prompt_files import Case

# The kinds of rules, by the arguments of their functions; the `Path` is the experiment file's.
ExperimentRule = Callable[[Experiment], Iterator[Problem]]
NeuronRule = Callable[[NeuronExperiment], Iterator[Problem]]
LocalRule = Callable[[LocalExperiment, Path], Iterator[Problem]]
SearchRule = Callable[[Experiment, Search], Iterator[Problem]]
PromptsRule = Callable[[Experiment, Sequence[Case]], Iterator[Problem]]
R = TypeVar("R", bound=Callable[..., Iterator[Problem]])


@dataclass(frozen=True, kw_only=True)
class Checked:
    """All that rules check: an experiment, the path of its file, and its cases (prompt files)."""

    experiment: Experiment
    path: Path
    cases: Sequence[Case]


# The registered rules: code of the rule -> a function that checks it and returns the problems.
RULES: dict[str, Callable[[Checked], Iterable[Problem]]] = {}


def rule(code: str) -> Callable[[ExperimentRule], ExperimentRule]:
    """Return a decorator that registers a rule of every experiment.

    The decorated function gets the experiment. code: the rule's name in messages, such as
    `window-fits-the-output`.
    """
    return _registering(code, lambda check, checked: check(checked.experiment))


def neuron_rule(code: str) -> Callable[[NeuronRule], NeuronRule]:
    """Return a decorator that registers a rule of experiments on Neuron devices.

    The decorated function gets the experiment. code: the rule's name in messages.
    """

    def apply(check: NeuronRule, checked: Checked) -> Iterable[Problem]:
        experiment = checked.experiment
        return check(experiment) if isinstance(experiment, NeuronExperiment) else ()

    return _registering(code, apply)


def local_rule(code: str) -> Callable[[LocalRule], LocalRule]:
    """Return a decorator that registers a rule of experiments on this machine.

    The decorated function gets the experiment and the path of its file. code: the rule's name in
    messages.
    """

    def apply(check: LocalRule, checked: Checked) -> Iterable[Problem]:
        experiment = checked.experiment
        return check(experiment, checked.path) if isinstance(experiment, LocalExperiment) else ()

    return _registering(code, apply)


def search_rule(code: str) -> Callable[[SearchRule], SearchRule]:
    """Return a decorator that registers a rule of experiments with a search.

    The decorated function gets the experiment and its search. code: the rule's name in messages.
    """

    def apply(check: SearchRule, checked: Checked) -> Iterable[Problem]:
        search = checked.experiment.search
        return check(checked.experiment, search) if search else ()

    return _registering(code, apply)


def prompts_rule(code: str) -> Callable[[PromptsRule], PromptsRule]:
    """Return a decorator that registers a rule of every experiment's prompts.

    The decorated function gets the experiment and its cases (prompt files). code: the rule's name
    in messages.
    """
    return _registering(code, lambda check, checked: check(checked.experiment, checked.cases))


def _registering(code: str, apply: Callable[[R, Checked], Iterable[Problem]]) -> Callable[[R], R]:
    """Return a decorator that registers the function of a rule.

    code: the rule's name in messages.
    apply: gets the decorated function and all that rules check. If the rule applies to the
        experiment, it calls the function with its arguments and returns the problems; else none.
    """

    def register(function: R) -> R:
        if code in RULES:
            raise ValueError(
                f"{function.__module__}: the code {code!r} is another rule's; "
                "give this rule a code of its own"
            )
        RULES[code] = partial(apply, function)
        return function

    return register
