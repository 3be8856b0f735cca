"""The search that the measuring Job does, of the shipped experiments."""

import pytest

from draftworth.planning.resolved import load
from tests.conftest import ROOT


def test_two_drafts_of_a_search_are_told_apart_by_size() -> None:
    found = load(ROOT / "experiments/qwen3-32b-search.yaml").search
    assert found
    assert len(found.candidates) == 26
    large, small = found.candidates[0], found.candidates[-1]
    assert (large.variant, large.window, large.checked) == ("qwen3-1.7b-k3", 3, 2)
    assert (small.draft, small.window, small.checked) == ("Qwen/Qwen3-0.6B", 15, 14)
    assert small.draft_size == pytest.approx(1.4 / 3.8)
    assert found.drafts_read_text
    assert not any(candidate.is_asked_for for candidate in found.candidates)


def test_upstream_vllm_checks_every_draft() -> None:
    found = load(ROOT / "experiments/rehearsal-search.yaml").search
    assert found
    assert [c.checked for c in found.candidates] == [c.window for c in found.candidates]


def test_without_a_search_there_is_none() -> None:
    assert load(ROOT / "experiments/qwen3-32b.yaml").search is None
