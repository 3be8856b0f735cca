"""Rules of a search: its drafts and windows, its one load, and the limits at which it stops.

These limits on money and time must not exceed the budget and the deadline of the experiment.
"""

from collections.abc import Iterator

from draftworth.errors import Problem, suggestion
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment, loads_of
from draftworth.experiment.rules.registry import search_rule
from draftworth.experiment.search_settings import MAX_CANDIDATES, Search
from draftworth.experiment.variants import name_stem

_FOR_THE_WINNER = "next: an experiment of the baseline and the winner that the search names"


@search_rule("method-drafts")
def _method_drafts(experiment: Experiment, search: Search) -> Iterator[Problem]:
    served = experiment.release_facts.methods
    elsewhere = {*catalog().methods, *catalog().unserved_methods}.difference(served)
    if search.method_facts or search.method in elsewhere:
        return
    drafting = [name for name in served if name in catalog().methods_with_draft]
    yield Problem(
        key=("search", "method"),
        actual=f'"{search.method}"',
        allowed=f"{', '.join(drafting)} on {experiment.release}",
        reason="a search tries drafts; what takes none, as the baseline, is one of the variants"
        + suggestion(search.method, drafting),
    )


@search_rule("windows-where-they-can-be-chosen")
def _windows_where_they_can_be_chosen(_: Experiment, search: Search) -> Iterator[Problem]:
    if search.method_facts is None:
        return
    if search.has_fixed_windows and search.windows is not None:
        yield Problem(
            key=("search", "windows"),
            actual=", ".join(map(str, search.windows)),
            allowed="leave the key out",
            reason=f"a draft of {search.method} was trained for one window: the search is over "
            "drafts",
        )
    if not search.has_fixed_windows and search.windows is None:
        yield Problem(
            key=("search", "windows"),
            actual="nothing",
            allowed="FIRST..LAST, as in 3..15, or a list of whole numbers",
            reason=f"{search.method} works with any window, and the search is to find the best one",
        )


@search_rule("own-windows-are-known")
def _fixed_windows_are_in_the_catalogue(_: Experiment, search: Search) -> Iterator[Problem]:
    for index, draft in enumerate(search.drafts if search.has_fixed_windows else ()):
        if not search.windows_of(draft):
            yield Problem(
                key=("search", "drafts", index),
                actual=draft.id_or_path,
                allowed="a draft whose window the catalogue knows, or a variant by hand",
                reason="the window that it was trained for is not in the catalogue",
            )


@search_rule("drafts-are-told-apart")
def _drafts_have_different_names(_: Experiment, search: Search) -> Iterator[Problem]:
    stems = [name_stem(draft.id_or_path) for draft in search.drafts]
    for index, draft in enumerate(search.drafts):
        if (first := stems.index(stems[index])) < index:
            yield Problem(
                key=("search", "drafts", index),
                actual=f"{draft.id_or_path}, beside {search.drafts[first].id_or_path}",
                allowed="each draft once, and one of those that share a name as variants by hand",
                reason=f"candidates are called by their draft and window: both are {stems[index]}",
            )


@search_rule("not-too-many-candidates")
def _not_too_many_candidates(experiment: Experiment, _: Search) -> Iterator[Problem]:
    candidates = sum(variant.window is not None for variant in experiment.served_variants)
    if candidates > MAX_CANDIDATES:
        yield Problem(
            key=("search",),
            actual=f"{candidates} candidates",
            allowed=f"at most {MAX_CANDIDATES}, those by hand among them: fewer drafts or windows",
            reason="a deploy has no room for more servers and their roles; a list of windows such "
            "as 3, 5, 8, 12 shows as well where the best one lies",
        )


@search_rule("each-is-measured-once")
def _each_is_measured_once(experiment: Experiment, _: Search) -> Iterator[Problem]:
    if experiment.repetitions > 1:
        repetitions, allowed = f"{experiment.repetitions}", "1, which is the default with a search"
        reason = "servers of a search share one slot, so that no two of them swap slots"
        yield _not_with_a_search("repetitions", repetitions, allowed, reason)
    if experiment.control:
        reason = "the baseline's second server would need the slot that candidates take in turn"
        yield _not_with_a_search("control", "true", "false", reason)
    if isinstance(experiment, NeuronExperiment) and experiment.baseline_as_shipped:
        reason = "it would hold a third slot while candidates take the second one in turn"
        yield _not_with_a_search("baseline_as_shipped", "true", "false", reason)


def _not_with_a_search(key: str, setting: str, allowed: str, reason: str) -> Problem:
    setting, reason = f"{setting} with a search", f"{reason}; {_FOR_THE_WINNER}"
    return Problem(key=(key,), actual=setting, allowed=allowed, reason=reason)


@search_rule("one-load")
def _one_load(experiment: Experiment, _: Search) -> Iterator[Problem]:
    loads = loads_of(experiment)
    if len(loads) == 1:
        return
    yield Problem(
        key=("workload", "input_tokens" if experiment.workload.input_lengths else "concurrency"),
        actual=f"{', '.join(load.label for load in loads)} with a search",
        allowed="one load, as in concurrency: 4, and one input length",
        reason=f"the best window is another at each load; {_FOR_THE_WINNER}, on a ladder",
    )


@search_rule("it-stops-before-the-guards")
def _it_stops_before_the_guards(experiment: Experiment, search: Search) -> Iterator[Problem]:
    if isinstance(experiment, LocalExperiment):
        return
    stop, aws, budget_usd = search.stop, experiment.aws, experiment.aws.accelerator_budget_usd
    if stop.last_start_usd is not None and stop.last_start_usd > budget_usd:
        yield Problem(
            key=("search", "stop", "last_start_usd"),
            actual=f"{stop.last_start_usd:g} with aws.accelerator_budget_usd {budget_usd:g}",
            allowed=f"at most {budget_usd:g}",
            reason="the nodes would go at the budget, in the middle of a measurement",
        )
    if stop.last_start_hours is not None and stop.last_start_hours * 60 > aws.deadline_minutes:
        yield Problem(
            key=("search", "stop", "last_start_hours"),
            actual=f"{stop.last_start_hours:g} with aws.deadline_minutes {aws.deadline_minutes}",
            allowed=f"at most {aws.deadline_minutes / 60:g}",
            reason="the nodes would go at the deadline, in the middle of a measurement",
        )


@search_rule("money-where-something-is-rented")
def _money_where_something_is_rented(experiment: Experiment, search: Search) -> Iterator[Problem]:
    if isinstance(experiment, NeuronExperiment):
        return
    for name in ("last_start_usd", "tokens_per_day"):
        if (limit := getattr(search.stop, name)) is not None:
            yield Problem(
                key=("search", "stop", name),
                actual=f"{limit:g}",
                allowed="leave the key out; last_start_hours and within stop a search here",
                reason="nothing is rented here, so nothing has a price",
            )
