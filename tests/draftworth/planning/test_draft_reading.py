"""Which drafts read on a CPU node, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from draftworth.planning.advice import advice_lines
from draftworth.planning.draft_reading import ROOM_GIB, draft_reading
from draftworth.planning.resolved import ResolvedNeuron
from tests.support.experiments import changed, changed_in, resolved

SMALL, LARGE, UNKNOWN = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "acme/Qwen3-1B"


def searched(drafts: Sequence[str]) -> ResolvedNeuron:
    """The shipped search with these drafts."""
    experiment = resolved("qwen3-32b-search")
    assert experiment.spec.search
    kind = type(experiment.spec.search.drafts[0])
    models = tuple(kind(model=name, tokenizer_family="qwen3") for name in drafts)
    search = experiment.spec.search.model_copy(update={"drafts": models})
    return changed(experiment, search=search)


def test_drafts_that_fit_read_with_the_memory_of_the_largest() -> None:
    reading = draft_reading(resolved("qwen3-32b-search"))
    assert [m.model for m in reading.models] == ["Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"]
    # 3.8 GiB of weights, half of them again and 4 GiB.
    assert reading.memory_gib == 10
    assert reading.too_large == ()


def test_a_draft_that_does_not_fit_is_left_out_and_told() -> None:
    experiment = searched([SMALL, LARGE])
    reading = draft_reading(experiment)
    assert [m.model for m in reading.models] == [SMALL]
    assert [m.model for m in reading.too_large] == [LARGE]
    (told,) = (line for line in advice_lines(experiment) if "outputs" in line and LARGE in line)
    assert f"27 GiB of memory it does not fit into the {ROOM_GIB} GiB" in told


def test_of_a_draft_of_unknown_size_the_pass_itself_finds_out() -> None:
    reading = draft_reading(searched([SMALL, UNKNOWN]))
    assert [m.model for m in reading.models] == [SMALL, UNKNOWN]
    assert reading.memory_gib == ROOM_GIB


@pytest.mark.parametrize(
    "experiment",
    [
        resolved(),
        changed_in(resolved("qwen3-32b-search"), "workload", temperature=0.8),
    ],
    ids=["no search", "sampled outputs"],
)
def test_where_nothing_can_be_told_nothing_reads(experiment: ResolvedNeuron) -> None:
    reading = draft_reading(experiment)
    assert (reading.models, reading.too_large) == ((), ())
    assert not [line for line in advice_lines(experiment) if "does not read" in line]
