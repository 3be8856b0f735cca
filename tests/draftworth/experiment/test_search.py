"""A search: what it expands to, and what it may not ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, placed_variants
from draftworth.experiment.search import MAX_WINDOW, Place, name_stem
from draftworth.experiment.strict import MAX_NAME_LENGTH
from draftworth.experiment.variants import Speculative
from draftworth.planning.resolved import load
from tests.conftest import ROOT
from tests.support.experiments import (
    DFLASH_HEAD,
    Edit,
    assert_refused,
    both,
    drop,
    load_spec,
    put,
    resolved,
    write_experiment,
)

SEARCH = "qwen3-32b-search"
BY_HAND = {
    "name": "as-published",
    "method": "fused_draft",
    "draft": {"model": "Qwen/Qwen3-1.7B"},
    "window": 7,
}
UNKNOWN = "example/unknown-head"
# DFlash on Llama 3.1 8B: a search over drafts, each with its own window.
OF_HEADS = both(
    put("release", value="neuron-2.33.0"),
    put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct"),
    put("search", value={"method": "dflash", "drafts": [{"model": DFLASH_HEAD}]}),
)


def searched(folder: Path, edit: Edit = lambda _: None) -> Experiment:
    return load_spec(write_experiment(folder, edit, base=SEARCH))


def names(experiment: Experiment) -> list[str]:
    return [variant.name for variant in experiment.served_variants]


def test_each_draft_is_tried_with_each_window() -> None:
    variants = resolved(SEARCH).variants
    assert [v.name for v in variants] == [
        "baseline",
        *(f"qwen3-1.7b-k{k}" for k in range(3, 16)),
        *(f"qwen3-0.6b-k{k}" for k in range(3, 16)),
    ]
    assert len({v.artifact_key for v in variants}) == 27
    assert [m.model for m in resolved(SEARCH).spec.models] == [
        "Qwen/Qwen3-32B",
        "Qwen/Qwen3-1.7B",
        "Qwen/Qwen3-0.6B",
    ]


def test_windows_may_be_a_list(tmp_path: Path) -> None:
    few = searched(tmp_path, put("search", "windows", value=[12, 3]))
    assert names(few)[1:] == [
        "qwen3-1.7b-k12",
        "qwen3-1.7b-k3",
        "qwen3-0.6b-k12",
        "qwen3-0.6b-k3",
    ]


@pytest.mark.parametrize(("given", "within"), [("3%", 0.03), (0.05, 0.05), ("2.5%", 0.025)])
def test_within_is_a_share_or_a_percentage(
    tmp_path: Path, given: str | float, within: float
) -> None:
    search = searched(tmp_path, put("search", "stop", "within", value=given)).search
    assert search
    assert search.stop.within == pytest.approx(within)


def test_a_search_measures_once_without_being_told(tmp_path: Path) -> None:
    assert searched(tmp_path).repetitions == 1
    assert load_spec(ROOT / "experiments" / "qwen3-32b.yaml").repetitions == 2


def test_what_is_a_variant_by_hand_too_is_that_variant(tmp_path: Path) -> None:
    found = names(searched(tmp_path, lambda data: data["variants"].append(BY_HAND)))
    assert found[:2] == ["baseline", "as-published"]
    assert "qwen3-1.7b-k7" not in found
    assert len(found) == 27


def test_heads_have_windows_of_their_own(tmp_path: Path) -> None:
    candidates = searched(tmp_path, OF_HEADS).served_variants[1:]
    assert [(v.name, v.window) for v in candidates if isinstance(v, Speculative)] == [
        ("llama3.1-8b-instruct-dflash-k9", 9)
    ]


@pytest.mark.parametrize(
    ("draft", "stem"),
    [
        ("Qwen/Qwen3-1.7B", "qwen3-1.7b"),
        ("../rehearsal/tiny_pair/draft", "draft"),
        ("folder/with a_name/", "with-a-name"),
        ("owner/1B-Draft", "draft-1b-draft"),
        ("..", "draft"),
        (DFLASH_HEAD, "llama3.1-8b-instruct-dflash"),
    ],
)
def test_candidates_have_names_that_a_variant_may_have(draft: str, stem: str) -> None:
    assert name_stem(draft) == stem
    assert len(f"{stem}-k{MAX_WINDOW}") <= MAX_NAME_LENGTH


def test_a_problem_of_a_candidate_is_told_where_it_comes_from() -> None:
    place = {v.name: place for place, v in placed_variants(resolved(SEARCH).spec)}["qwen3-0.6b-k9"]
    assert place.at("window") == ("search", "windows")
    assert place.at("draft", "model") == ("search", "drafts", 1, "model")
    assert place.at("method") == ("search", "method")
    assert place.at("name") == place.whole == ("search", "drafts", 1)
    assert Place(whole=("variants", 1)).at("draft", "model") == ("variants", 1, "draft", "model")


@pytest.mark.parametrize(
    ("edit", "first"),
    [
        (lambda _: None, "qwen3-1.7b-k8"),
        (put("search", "windows", value=[5, 4, 12]), "qwen3-1.7b-k5"),
        (put("search", "windows", value=[15, 10, 12]), "qwen3-1.7b-k10"),
        (lambda data: data["variants"].append({**BY_HAND, "window": 13}), "as-published"),
    ],
)
def test_the_first_is_by_hand_or_near_what_is_published(
    tmp_path: Path, edit: Edit, first: str
) -> None:
    experiment = load(write_experiment(tmp_path, edit, base=SEARCH))
    assert experiment.first_candidate is not None
    assert experiment.first_candidate.name == first
    up = [v.name for v in experiment.variants if experiment.starts_up(v)]
    assert up == ["baseline", first]


def test_one_candidate_of_each_draft_is_tried_on_a_cpu_node() -> None:
    tried = [variant.name for variant in resolved(SEARCH).canaries]
    assert tried == ["baseline", "qwen3-1.7b-k8", "qwen3-0.6b-k3"]
    one_by_one = resolved("llama-3.1-8b-eagle3")
    assert one_by_one.canaries == one_by_one.variants


def test_without_a_search_every_server_starts() -> None:
    experiment = resolved("llama-3.1-8b-eagle3")
    assert experiment.first_candidate is None
    assert all(experiment.starts_up(variant) for variant in experiment.variants)


def test_candidates_share_one_slot_beside_the_baseline() -> None:
    experiment = resolved(SEARCH)
    placement = experiment.placement
    assert (placement.nodes, placement.held) == (1, 2)
    assert [placement.place(slot) for slot in placement.slots] == [0, *[1] * 26]
    assert all(len(variant.slots) == 1 for variant in experiment.variants)
    assert experiment.price
    assert set(experiment.price.node_shares.values()) == {0.5}


# edit, key, given, allowed, reason: as in test_loading.py
REFUSED: dict[str, tuple[Edit, str, str, str, str]] = {
    "no windows": (
        drop("search", "windows"),
        "search.windows",
        "nothing",
        "3..15, or a list",
        "any window",
    ),
    "an empty range": (
        put("search", "windows", value="15..3"),
        "search.windows",
        '"15..3"',
        "each from 1 to 31",
        "num_speculative_tokens",
    ),
    "a range that is none": (
        put("search", "windows", value="3-15"),
        "search.windows",
        '"3-15"',
        "FIRST..LAST, as in 3..15",
        "num_speculative_tokens",
    ),
    "a window that nobody would draft": (
        put("search", "windows", value=[3, 32]),
        "search.windows[1]",
        "32",
        "31 or less",
        "num_speculative_tokens",
    ),
    "a window twice": (
        put("search", "windows", value=[3, 5, 3]),
        "search.windows",
        "[3, 5, 3]",
        "each entry once; twice: 3",
        "num_speculative_tokens",
    ),
    "one number for windows": (
        put("search", "windows", value=7),
        "search.windows",
        "7",
        "FIRST..LAST, as in 3..15 or a list",
        "num_speculative_tokens",
    ),
    "a window that drafts nothing": (
        put("search", "windows", value="1..3"),
        "search.windows",
        "1",
        "2 or more",
        "speculates nothing",
    ),
    "a draft that could not pay": (
        put("search", "drafts", 0, "model", value="Qwen/Qwen3-32B"),
        "search.windows",
        "15",
        "a smaller draft",
        "dearer than the baseline even where every draft is accepted",
    ),
    "windows of heads": (
        both(OF_HEADS, put("search", "windows", value="3..9")),
        "search.windows",
        "3, 4, 5",
        "leave the key out",
        "trained for one window",
    ),
    "a head of which nobody knows the window": (
        both(OF_HEADS, put("search", "drafts", 0, "model", value=UNKNOWN)),
        "search.drafts[0]",
        UNKNOWN,
        "a variant by hand",
        "for which window",
    ),
    "no draft": (
        put("search", "drafts", value=[]),
        "search.drafts",
        "[]",
        "a list of 1 or more",
        "each tried with each window",
    ),
    "a draft twice": (
        put("search", "drafts", 1, "model", value="Qwen/Qwen3-1.7B"),
        "search.drafts[1]",
        "Qwen/Qwen3-1.7B, beside Qwen/Qwen3-1.7B",
        "each draft once",
        "both are qwen3-1.7b",
    ),
    "a draft of another family": (
        put("search", "drafts", 1, "model", value="meta-llama/Llama-3.2-1B-Instruct"),
        "search.drafts[1].model",
        "tokenizer family llama3",
        "a draft of the family qwen3",
        "token ids",
    ),
    "a name that a variant by hand has": (
        lambda data: data["variants"].append({**BY_HAND, "name": "qwen3-0.6b-k7"}),
        "search.drafts[1]",
        '"qwen3-0.6b-k7"',
        "unique",
        "Kubernetes service",
    ),
    "a method that drafts nothing": (
        put("search", "method", value="none"),
        "search.method",
        '"none"',
        "fused_draft, eagle on neuron-2.26.1",
        "the baseline stands among the variants",
    ),
    "a misspelt method": (
        put("search", "method", value="fused_drafts"),
        "search.method",
        '"fused_drafts"',
        "fused_draft, eagle on neuron-2.26.1",
        "did you mean 'fused_draft'?",
    ),
    "a method of another release": (
        put("search", "method", value="eagle3"),
        "search.method",
        "eagle3 on release neuron-2.26.1",
        "eagle3 needs release",
        "cannot serve",
    ),
    "a method that no image serves": (
        put("search", "method", value="medusa"),
        "search.method",
        "medusa on release neuron-2.26.1",
        "in the place of medusa",
        "no vLLM image for Neuron",
    ),
    "repetitions": (
        put("repetitions", value=2),
        "repetitions",
        "2 with a search",
        "1, which is the default",
        "the winner",
    ),
    "a control": (
        put("control", value=True),
        "control",
        "true with a search",
        "false",
        "the slot that candidates take",
    ),
    "the baseline as shipped": (
        put("baseline_as_shipped", value=True),
        "baseline_as_shipped",
        "true with a search",
        "false",
        "a third slot",
    ),
    "a ladder": (
        drop("workload", "load"),
        "workload.load",
        "c1, c2, c4 with a search; load is left out",
        "one load",
        "another at each load",
    ),
    "several lengths": (
        put("workload", "input_tokens", value=[64, 128]),
        "workload.input_tokens",
        "with a search",
        "one input length",
        "another at each load",
    ),
    "too many candidates": (
        put("search", "windows", value="3..31"),
        "search",
        "58 candidates",
        "at most 32, those by hand among them",
        "no room for more servers",
    ),
    "more than the budget": (
        put("search", "stop", "usd", value=1000),
        "search.stop.usd",
        "1000 with aws.budget_usd 80",
        "at most 80",
        "in the middle of a measurement",
    ),
    "longer than the deadline": (
        put("search", "stop", "hours", value=10),
        "search.stop.hours",
        "10 with aws.deadline_minutes 540",
        "at most 9",
        "in the middle of a measurement",
    ),
    "no share": (
        put("search", "stop", "within", value="three"),
        "search.stop.within",
        '"three"',
        "such as 3% or 0.03",
        "no other candidate",
    ),
    "more than half": (
        put("search", "stop", "within", value="80%"),
        "search.stop.within",
        '"80%"',
        "0.5 or less",
        "no other candidate",
    ),
    "a baseline for a search only": (
        put("variants", 0, value=BY_HAND),
        "variants",
        "0 variants with method none",
        "exactly one",
        "the one baseline",
    ),
}


@pytest.mark.parametrize(
    ("edit", "key", "given", "allowed", "reason"), REFUSED.values(), ids=REFUSED
)
def test_a_wrong_search_is_refused(
    tmp_path: Path, edit: Edit, key: str, given: str, allowed: str, reason: str
) -> None:
    assert_refused(write_experiment(tmp_path, edit, base=SEARCH), key, given, allowed, reason)


def test_a_local_search_has_no_money(tmp_path: Path) -> None:
    def edit(data: dict[str, object]) -> None:
        folders = ROOT / "rehearsal" / "tiny_pair"
        put("target", "path", value=str(folders / "target"))(data)
        put("search", "drafts", 0, "path", value=str(folders / "draft"))(data)
        put("search", "stop", "usd", value=1)(data)

    path = write_experiment(tmp_path, edit, base="rehearsal-search")
    assert_refused(path, "search.stop.usd", "1", "leave the key out", "nothing is rented")


def test_no_published_prior_refuses_a_draft_by_itself() -> None:
    """The least step costs leave every window that speculates to be measured."""
    served = [
        (method, facts)
        for release in catalog().releases.values()
        for method, facts in release.methods.items()
        if catalog().methods[method].step_cost_per_draft
    ]
    assert served
    for method, facts in served:
        least, _ = catalog().methods[method].step_cost_per_draft or (0.0, 0.0)
        for window in range(facts.min_window, MAX_WINDOW + 1):
            assert 1 + window * least < facts.max_tokens_per_step(window)
