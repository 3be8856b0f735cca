"""Step-cost cards (`step_costs.json`): their values by hand, and reading valid and wrong files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis.costs import step_cost_ratio, step_costs_of
from draftworth.errors import UserInputError
from draftworth.planning.specify_run import serving_facts
from draftworth.records.codec import dump_record
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import CONTROL, BlockResult
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding
from draftworth.records.step_costs import STEP_COSTS_FILE, StepCost, StepCostCard, read_step_costs
from tests.draftworth.report import runs
from tests.support.blocks import each_request, make_price
from tests.support.experiments import resolved
from tests.support.present import present

C1, C4 = ConcurrencyLoad(concurrency=1), ConcurrencyLoad(concurrency=4)


def changed(block: BlockResult, **values: object) -> BlockResult:
    """Return the block with other values in these fields of every request."""
    return each_request(block, lambda r: replace(r, **values))  # type: ignore[arg-type]


def cost(run: Run, variant: str) -> StepCost:
    (step_cost,) = [cost for cost in step_costs_of(run).costs if cost.variant == variant]
    return step_cost


def structured(**values: object) -> Run:
    """Return a run of one class whose requests have 20 input and 100 output tokens in 2 seconds.

    The variant's outputs come in 11 chunks, the first of which has 1 token and comes after 1
    second. values: other values of the variant's request records.
    """
    timed = {
        "ttft_s": 1.0,
        "end_to_end_latency_s": 2.0,
        "chunks": 11,
        "first_chunk_tokens": 1,
        "number_input_tokens": 20,
        "number_output_tokens": 100,
    }
    plain = changed(runs.make_plain_block(1, "structured"), **timed | {"chunks": 100})
    drafted = changed(
        runs.make_drafted_block(2, "structured", max_tokens_per_step=12), **timed | values
    )
    return runs.make_run(
        blocks=runs.two_rounds(plain, drafted),
        max_tokens_per_step={runs.BASELINE: 1, runs.VARIANT: 12},
        class_weights={},
    )


def test_a_step_is_the_time_between_chunks() -> None:
    step_cost = cost(structured(), runs.VARIANT)

    assert step_cost.steps_by == "chunks"
    assert step_cost.step_latency_s == pytest.approx(1.0 / 10)
    assert step_cost.steps == 16 * 10
    assert step_cost.requests == 16
    assert step_cost.tokens_per_step == pytest.approx(9.9)
    # A step's mean context is the 20 input tokens and half of the 100 output tokens.
    assert step_cost.mean_context_tokens == pytest.approx(70)


def test_differing_requests_give_the_ratio_an_interval() -> None:
    run = structured()
    blocks = tuple(
        replace(
            block,
            requests=tuple(
                replace(r, end_to_end_latency_s=2.0 + 0.01 * i)
                for i, r in enumerate(block.requests)
            ),
        )
        for block in run.blocks
    )
    step_cost = cost(replace(run, blocks=blocks), runs.VARIANT)

    assert present(step_cost.step_latency_s) == pytest.approx((16 + 2 * 0.28) / 160)
    low, high = present(step_cost.step_latency_low_s), present(step_cost.step_latency_high_s)
    assert low < present(step_cost.step_latency_s) < high


def test_one_token_per_step_is_counted_by_tokens() -> None:
    plain, drafted, *rest = structured().blocks
    merged = changed(plain, chunks=10)
    step_cost = cost(replace(structured(), blocks=(merged, drafted, *rest)), runs.BASELINE)

    assert step_cost.steps_by == "tokens"
    assert step_cost.step_latency_s == pytest.approx(1.0 / 99)
    assert step_cost.tokens_per_step == pytest.approx(1.0)


def test_merged_chunks_leave_the_servers_step_count() -> None:
    step_cost = cost(structured(chunks=4, verification_steps=20), runs.VARIANT)

    assert step_cost.steps_by == "verification steps"
    assert step_cost.step_latency_s == pytest.approx(1.0 / 20)


def test_merged_chunks_without_counts_are_no_steps() -> None:
    step_cost = cost(structured(chunks=4), runs.VARIANT)

    assert (step_cost.steps_by, step_cost.step_latency_s) == (None, None)
    assert (step_cost.steps, step_cost.requests) == (0, 0)


def test_excluded_and_failed_requests_have_no_steps() -> None:
    assert cost(structured(excluded="the client waited"), runs.VARIANT).requests == 0


def test_each_load_has_step_costs_but_no_control() -> None:
    run = runs.with_control(runs.structured_run(1, 4))
    variants_and_loads = [(c.variant, c.load.label) for c in step_costs_of(run).costs]

    assert CONTROL in {block.variant for block in run.blocks}
    assert variants_and_loads == [
        (v, load) for v in (runs.BASELINE, runs.VARIANT) for load in ("c1", "c4")
    ]


def test_a_card_says_what_served() -> None:
    experiment = resolved()
    facts = serving_facts(experiment)

    assert (facts.instance_type, facts.tensor_parallel_size) == ("trn2.48xlarge", 32)
    assert facts.decoding["qwen3-1.7b-k7"] == Decoding(
        method="fused_draft", window=7, draft="Qwen/Qwen3-1.7B", draft_revision="main"
    )
    assert facts.decoding["baseline"] == Decoding(method="none")
    keys = {name: how.artifact_key for name, how in facts.decoding.items()}
    assert keys == {variant.name: variant.artifact_key for variant in experiment.variants}
    run = structured()
    card = step_costs_of(replace(run, result=replace(run.result, serving=facts)))
    assert card.serving == facts


def written(folder: Path, card: StepCostCard) -> Path:
    path = folder / STEP_COSTS_FILE
    path.write_bytes(dump_record(card, indent=2))
    return path


def test_a_card_is_read_from_file_or_folder(tmp_path: Path) -> None:
    card = step_costs_of(structured())
    path = written(tmp_path, card)

    assert read_step_costs(path) == read_step_costs(tmp_path) == card
    assert len(card.content_sha256) == 64


def test_the_same_content_has_the_same_name() -> None:
    assert step_costs_of(structured()) == step_costs_of(structured())
    other = structured(number_input_tokens=21)
    assert step_costs_of(other).content_sha256 != step_costs_of(structured()).content_sha256


def test_a_card_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, step_costs_of(structured()))
    data = json.loads(path.read_text())
    data["costs"][0]["step_latency_s"] /= 2
    path.write_text(json.dumps(data))

    with pytest.raises(UserInputError, match="it was changed after the run wrote it"):
        read_step_costs(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "no step-cost card of this version"),
        (b'{"schema": "draftworth.step-costs/9"}', "allowed 'draftworth.step-costs/2'"),
        (None, "no step-cost card there"),
    ],
)
def test_what_is_no_card_is_refused(tmp_path: Path, data: bytes | None, message: str) -> None:
    if data is not None:
        (tmp_path / STEP_COSTS_FILE).write_bytes(data)
    with pytest.raises(UserInputError, match=message):
        read_step_costs(tmp_path)


def test_a_step_cost_ratio_pairs_the_rounds() -> None:
    """What variant and baseline have in common does not widen the interval of the ratio.

    In `common`, times differ by prompt and by round, but in the same way for both, so that the
    ratio is the same everywhere and its interval has no width.
    """
    run = runs.make_run()
    load = run.blocks[0].load
    ratio = step_cost_ratio(run, load, runs.VARIANT)
    card = {c.variant: c.step_latency_s for c in step_costs_of(run).costs}
    assert ratio is not None
    assert ratio.value == pytest.approx((card[runs.VARIANT] or 0) / (card[runs.BASELINE] or 1))
    dear = replace(make_price(), node_shares={runs.BASELINE: 0.25, runs.VARIANT: 0.5})
    priced = step_cost_ratio(
        replace(run, result=replace(run.result, price=dear)), load, runs.VARIANT
    )
    assert priced is not None
    assert priced.value == pytest.approx(2 * ratio.value)
    common = replace(
        run,
        blocks=tuple(
            replace(
                b,
                requests=tuple(
                    replace(
                        r,
                        ttft_s=place * 0.25,
                        end_to_end_latency_s=place * 0.25 + place * b.round * b_seconds(b),
                    )
                    for place, r in enumerate(b.requests, start=1)
                ),
            )
            for b in run.blocks
        ),
    )
    paired = step_cost_ratio(common, load, runs.VARIANT)
    alone = cost(common, runs.VARIANT)
    assert paired is not None
    assert paired.relative_width == pytest.approx(0.0, abs=1e-9)
    assert (alone.step_latency_high_s or 9) > 1.1 * (alone.step_latency_low_s or 0)


def b_seconds(block: BlockResult) -> float:
    """Return a side's seconds of decoding before the factors of prompt and round are applied."""
    return 1.0 if block.variant == runs.BASELINE else 2.0


def test_without_steps_there_is_no_ratio() -> None:
    merged = structured(chunks=3)
    assert cost(merged, runs.VARIANT).step_latency_s is None
    assert step_cost_ratio(merged, merged.blocks[0].load, runs.VARIANT) is None
    assert step_cost_ratio(structured(), C1, runs.VARIANT) is None
