"""A search: the candidates that it expands to, and keys that may not be combined with it."""

from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, placed_variants
from draftworth.experiment.search_settings import Place
from draftworth.experiment.strict_model import MAX_NAME_LENGTH
from draftworth.experiment.variants import MAX_WINDOW, name_stem
from draftworth.planning.resolved import load
from tests.conftest import ROOT
from tests.support import experiments
from tests.support.present import present

SEARCH = "qwen3-32b-search"
BY_HAND = {
    "name": "as-published",
    "method": "fused_draft",
    "draft": {"model": "Qwen/Qwen3-1.7B"},
    "window": 7,
}


def searched(folder: Path, edit: experiments.Edit = lambda _: None) -> Experiment:
    return experiments.load_spec(experiments.write_experiment(folder, edit, base=SEARCH))


def names(experiment: Experiment) -> list[str]:
    return [variant.name for variant in experiment.served_variants]


def test_a_method_without_drafts_cannot_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = catalog().methods
    without_draft = methods["fused_draft"].model_copy(update={"draft": None})
    monkeypatch.setitem(methods, "fused_draft", without_draft)
    message = (
        r"search.method \(method-drafts\)\n.*fused_draft\"\n *allowed: eagle on neuron-2.26.1\n"
    )
    with pytest.raises(UserInputError, match=message):
        searched(tmp_path)


def test_a_search_measures_once_without_being_told(tmp_path: Path) -> None:
    assert searched(tmp_path).repetitions == 1
    assert experiments.load_spec(ROOT / "experiments" / "qwen3-32b.yaml").repetitions == 2


def test_a_candidate_also_by_hand_is_that_variant(tmp_path: Path) -> None:
    variant_names = names(searched(tmp_path, lambda data: data["variants"].append(BY_HAND)))
    assert variant_names[:2] == ["baseline", "as-published"]
    assert "qwen3-1.7b-k7" not in variant_names
    assert len(variant_names) == 27


@pytest.mark.parametrize(
    ("draft", "stem"),
    [
        ("Qwen/Qwen3-1.7B", "qwen3-1.7b"),
        ("../rehearsal/tiny_pair/draft", "draft"),
        ("folder/with a_name/", "with-a-name"),
        ("owner/1B-Draft", "draft-1b-draft"),
        ("..", "draft"),
        (experiments.DFLASH_HEAD, "llama3.1-8b-instruct-dflash"),
    ],
)
def test_candidates_have_names_that_a_variant_may_have(draft: str, stem: str) -> None:
    assert name_stem(draft) == stem
    assert len(f"{stem}-k{MAX_WINDOW}") <= MAX_NAME_LENGTH


def test_a_candidates_problem_is_reported_at_its_origin() -> None:
    place = {v.name: place for place, v in placed_variants(experiments.resolved(SEARCH).spec)}[
        "qwen3-0.6b-k9"
    ]
    assert place.at("window") == ("search", "windows")
    assert place.at("draft", "model") == ("search", "drafts", 1, "model")
    assert place.at("method") == ("search", "method")
    assert place.at("name") == place.whole == ("search", "drafts", 1)
    assert Place(whole=("variants", 1)).at("draft", "model") == ("variants", 1, "draft", "model")


@pytest.mark.parametrize(
    ("edit", "first"),
    [
        (lambda _: None, "qwen3-1.7b-k8"),
        (experiments.put("search", "windows", value=[5, 4, 12]), "qwen3-1.7b-k5"),
        (experiments.put("search", "windows", value=[15, 10, 12]), "qwen3-1.7b-k10"),
        (lambda data: data["variants"].append({**BY_HAND, "window": 13}), "as-published"),
    ],
)
def test_the_first_is_by_hand_or_near_published(
    tmp_path: Path, edit: experiments.Edit, first: str
) -> None:
    experiment = load(experiments.write_experiment(tmp_path, edit, base=SEARCH))
    assert present(experiment.first_candidate).name == first
    up = [v.name for v in experiment.variants if experiment.starts_up(v)]
    assert up == ["baseline", first]


def test_one_candidate_per_draft_is_a_canary() -> None:
    tried = [variant.name for variant in experiments.resolved(SEARCH).canaries]
    assert tried == ["baseline", "qwen3-1.7b-k8", "qwen3-0.6b-k3"]
    one_by_one = experiments.resolved("llama-3.1-8b-eagle3")
    assert one_by_one.canaries == one_by_one.variants


def test_candidates_share_one_slot_beside_the_baseline() -> None:
    experiment = experiments.resolved(SEARCH)
    placement = experiment.placement
    assert (placement.nodes, placement.held) == (1, 2)
    assert [placement.place(slot) for slot in placement.slots] == [0, *[1] * 26]
    assert all(len(variant.slots) == 1 for variant in experiment.variants)
    assert set(present(experiment.price).node_shares.values()) == {0.5}


def test_no_published_prior_refuses_a_draft_by_itself() -> None:
    """With the lowest published cost, every window could still pay, so it must be measured."""
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


def test_two_drafts_of_a_search_differ_by_size() -> None:
    search = present(experiments.resolved(SEARCH).search)
    assert len(search.candidates) == 26
    large, small = search.candidates[0], search.candidates[-1]
    assert (large.variant, large.window, large.checked) == ("qwen3-1.7b-k3", 3, 2)
    assert (small.draft, small.window, small.checked) == ("Qwen/Qwen3-0.6B", 15, 14)
    assert small.draft_size == pytest.approx(1.4 / 3.8)
    assert search.drafts_read_text
    assert not any(candidate.is_asked_for for candidate in search.candidates)
