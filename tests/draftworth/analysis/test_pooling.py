"""Merging several runs into one: which runs may be merged, and what the merged run says."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.pooling import NotPooledError, pooled
from draftworth.decision.facts import facts_of
from draftworth.decision.run_comparison import changes
from draftworth.records.likelihoods import Likelihood
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult, Limits
from draftworth.records.run_folder import Run
from draftworth.records.servers import ServingFacts
from draftworth.report.reason_sentences import reason_words
from draftworth.report.run_differences import not_pooled_words
from tests.draftworth.report.runs import make_run, slower, with_control, with_repetitions
from tests.support.blocks import START_UNIX_S, each_request, make_price
from tests.support.present import present
from tests.support.serving_facts import make_serving_facts


def run(name: str, *, factor: float = 1.0, **overrides: Any) -> Run:
    """Return a run in which the variant's requests take `factor` times as long."""
    made = make_run(run_id=name, **overrides)

    def named(block: BlockResult) -> BlockResult:
        taken = slower(block, factor) if block.variant == "k7" else block
        return each_request(taken, lambda r: replace(r, request_id=f"{name}/{r.request_id}"))

    return replace(made, blocks=tuple(map(named, made.blocks)))


def other_prompts(block: BlockResult) -> BlockResult:
    """Return the block with one of its prompts replaced by another."""
    return each_request(
        block, lambda r: replace(r, prompt_id=r.prompt_id.replace("prompt-7", "prompt-8"))
    )


def with_(**fields: Any) -> tuple[BlockResult, ...]:
    """Return the blocks of a run, each with other values in these fields."""
    return tuple(replace(block, **fields) for block in make_run().blocks)


K7 = replace(make_serving_facts().decoding["k7"], artifact_key="0" * 24)
SERVING = replace(make_serving_facts(), decoding={"k7": K7})


def served(**changed: Any) -> Run:
    return run("other", serving=replace(SERVING, **changed))


@pytest.mark.parametrize(
    "other",
    [None, SERVING, replace(SERVING, image="an-image", tensor_parallel_size=None, decoding={})],
)
def test_missing_facts_are_no_difference(other: ServingFacts | None) -> None:
    assert pooled([run("one", serving=SERVING), run("other", serving=other)]).is_pool


def test_prompts_of_two_choices_are_not_pooled() -> None:
    first, older = run("one", chosen_by={"chat": "1a"}), run("older")
    assert pooled([first, older]).result.chosen_by == {"chat": "1a"}
    with pytest.raises(NotPooledError) as error:
        pooled([first, run("other", chosen_by={"chat": "2b"})])
    assert "records of `prompts choose` '1a' and '2b'" in not_pooled_words(error.value.why)


def test_a_run_of_fewer_prompts_can_be_pooled() -> None:
    fewer = tuple(replace(b, requests=b.requests[:6]) for b in make_run().blocks)
    assert pooled([run("one"), run("other", blocks=fewer)]).is_pool


def test_each_runs_foreign_outputs_remain_in_the_pool() -> None:
    strange = Likelihood(variant="k7", outputs=8, tokens=800, deviation=-90.0, per_token=-9.0)
    other = replace(run("other", temperature=0.7), likelihoods=(strange,))
    whole = pooled([run("one", temperature=0.7), other])
    assert {m.judgement for m in facts_of(whole, {}).mixes} == {"inconclusive"}


@pytest.mark.parametrize(
    ("other", "advised"),
    [
        (run("other", limits=Limits(ttft_p95_s=1.0)), True),
        (run("other", experiment="another"), True),
        (run("other", temperature=0.7), False),
        (run("other", baseline="k7"), False),
    ],
)
def test_a_comparison_is_advised_only_where_possible(other: Run, advised: bool) -> None:
    with pytest.raises(NotPooledError) as refused:
        pooled([run("one"), other])
    assert ("--against" in not_pooled_words(refused.value.why)) is advised


def test_one_run_is_itself() -> None:
    one = run("one")
    assert pooled([one]) is one
    assert not one.is_pool


def test_every_repetition_of_every_run_is_pooled() -> None:
    later = with_repetitions(run("other", factor=1.2, started_at_unix_s=START_UNIX_S + 60), 2)
    whole = pooled([later, run("one")])
    assert whole.is_pool
    assert whole.result.run_id == "one + other"
    assert whole.result.repetitions == 3
    assert whole.result.time.measuring_s == pytest.approx(2 * 54.0)
    facts = facts_of(whole, {})
    (mix,) = facts.mixes
    assert present(mix.cost_ratio).repetitions == 3
    of_mix = [r for r in facts.repetitions if r.traffic == "traffic mix"]
    assert [(r.run_id, r.repetition) for r in of_mix] == [("one", 1), ("other", 1), ("other", 2)]
    values = [r.cost_ratio.value for r in of_mix if r.cost_ratio]
    assert min(values) < present(mix.cost_ratio).value < max(values)
    assert "in these 3 repetitions" in reason_words(present(facts.speculative[0].comparison))


def test_four_runs_speak_of_any() -> None:
    runs = [run(name, factor=factor) for name, factor in zip("abcd", (1, 1.1, 0.9, 1), strict=True)]
    alone, all_four = facts_of(runs[0], {}).mixes[0], facts_of(pooled(runs), {}).mixes[0]
    assert "in this run" in reason_words(alone)
    assert "in these" not in reason_words(all_four)
    assert (present(all_four.cost_ratio).relative_width or 0) > 2 * (
        present(alone.cost_ratio).relative_width or 1
    )


def test_early_ends_and_failures_name_their_run() -> None:
    whole = pooled([run("one", status="failed", reason="no server"), run("two", shortened="late")])
    assert (whole.result.status, whole.result.reason) == ("failed", "one: no server")
    assert whole.result.shortened == "two: late"


def test_one_runs_control_is_the_floor_of_all() -> None:
    whole = pooled([with_control(run("one")), run("two")])
    assert facts_of(whole, {}).mixes[0].floor is not None


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (run("other", experiment="another"), "experiment 'built' and 'another'"),
        (run("other", limits=Limits(ttft_p95_s=1.0)), "limits "),
        (run("other", class_weights={"structured": 0.9, "open_ended": 0.1}), "weights of classes"),
        (run("other", price=make_price()), "prices "),
        (run("other", temperature=0.7), "temperature 0 and 0.7"),
        (run("other", prompt_cache="warm"), "prompts new to the servers True and False"),
        (
            run("other", blocks=tuple(other_prompts(b) for b in make_run().blocks)),
            "prompts of structured/count: only in the first prompt-7, only in the second prompt-8",
        ),
        (run("other", max_tokens_per_step={"baseline": 1, "k7": 4}), "most tokens per step "),
        (run("other", variants=("baseline", "k7", "k3")), "variants "),
        (run("other", blocks=with_(model="another")), "model "),
        (run("other", blocks=with_(load=ConcurrencyLoad(concurrency=8))), "only in the first"),
        (run("one"), "given one twice"),
        (served(release="neuron-2.27.0"), "release 'neuron-2.26.1' and 'neuron-2.27.0'"),
        (served(target_model="another"), "target 'Qwen/Qwen3-32B' and 'another'"),
        (served(max_num_seqs=8), "max_num_seqs 4 and 8"),
        (served(tensor_parallel_size=64), "tensor parallel size 32 and 64"),
        (served(decoding={"k7": replace(K7, draft="other")}), "draft 'Qwen/Qwen3-1.7B' and 'ot"),
        (
            served(decoding={"k7": replace(K7, artifact_key="1" * 24)}),
            f"k7: artifact_key '{'0' * 24}' and '{'1' * 24}'",
        ),
    ],
)
def test_runs_of_other_things_are_refused_with_differences(other: Run, names: str) -> None:
    with pytest.raises(NotPooledError) as refused:
        pooled([run("one", serving=SERVING), other])
    assert names in not_pooled_words(refused.value.why)


def test_runs_put_together_are_compared_with_others() -> None:
    """Two merged runs are compared with two other merged runs.

    Each side has two starts of its servers. These are too few to show that something has changed.
    """
    one, other = (
        facts_of(pooled([run(f"{name}{i}", factor=factor) for i in (1, 2)]), {})
        for name, factor in (("a", 1.3), ("b", 1.0))
    )
    run_changes = changes(one, other)
    assert [change.is_shown for change in run_changes] == [None, None]
    assert present(run_changes[0].ratio).value == pytest.approx(1.3)
    assert present(run_changes[0].ratio).repetitions == 2
