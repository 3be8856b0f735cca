"""Finding where two outputs begin to differ, and how much outputs are like the baseline's."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis import output_differences
from draftworth.analysis.clustering import Sample
from draftworth.analysis.output_differences import BesideControl
from draftworth.analysis.pairing import Pair
from draftworth.decision.facts import facts_of
from draftworth.records.transcripts import Transcript, read_transcripts
from draftworth.report.attention import attention_of
from tests.draftworth.report import runs
from tests.support.blocks import each_request, make_record
from tests.support.present import present

DIFFERENT = "f" * 64


def test_differing_pairs_are_told_with_position_and_context(tmp_path: Path) -> None:
    run = runs.make_run(
        blocks=(runs.make_plain_block(1, "structured"), runs.make_drafted_block(2, "structured"))
    )
    texts = {"run/1-3": "count: 1 2 3", "run/2-3": "count: 1 2 4"}
    folder = runs.write_run(run, tmp_path / "run", texts=texts)

    facts = facts_of(run, read_transcripts(folder, run.blocks))

    (divergence,) = facts.speculative[0].divergences
    assert (divergence.token, divergence.character) == (11, 11)
    assert divergence.prompt == "prompt-3"
    assert (divergence.baseline_text, divergence.variant_text) == ("3", "4")


@pytest.mark.parametrize(
    ("characters", "tokens", "position", "expected"),
    [
        ([2, 3, 4], [1, 1, 1], 4, 1),
        ([2, 3, 4], [1, 1, 1], 5, 2),
        ([2, 3, 4], [1, 7, 1], 5, 8),  # after a chunk of 7 tokens, as a speculative step yields
        ([2, 0, 4], [1, 1, 1], 2, 2),  # the middle token is half a character, without text
        ([2, 3], [1, 1], 5, 2),  # this text ends where the other one goes on
        ([2, 3], [], 4, None),  # a server that counts tokens only at the end of an answer
    ],
)
def test_a_texts_position_is_a_token_by_chunks(
    characters: list[int], tokens: list[int], position: int, expected: int | None
) -> None:
    transcript = Transcript(
        request_id="r",
        text="x" * sum(characters),
        chunk_tokens=tuple(tokens),
        chunk_characters=tuple(characters),
    )
    assert transcript.tokens_before(position) == expected


def test_steps_are_the_times_between_chunks(tmp_path: Path) -> None:
    run = runs.make_run()
    facts = facts_of(run, read_transcripts(runs.write_run(run, tmp_path / "run"), run.blocks))
    baseline = facts.groups[0].baseline
    assert len(baseline.step_latencies_s) == 2 * 8 * 99
    assert baseline.step_latencies_s[0] == pytest.approx(0.01)


def pair(**hashes: str) -> Pair:
    plain, drafted = (
        make_record(request_id=side, output_sha256=hashes.get(side, "0" * 64))
        for side in ("plain", "drafted")
    )
    place = Sample(stratum="c/x", prompt="x/p", block="x/1", value=0.0)
    return Pair(prompt_class="c", round=1, place=place, plain=plain, drafted=drafted)


def make_transcript(ids: Sequence[int] | None, text: str, *, side: str) -> Transcript:
    token_ids = None if ids is None else tuple(ids)
    return Transcript(request_id=side, text=text, token_ids=token_ids)


@pytest.mark.parametrize(
    ("plain_ids", "drafted_ids", "identical", "kept"),
    [
        # Both outputs have token ids, which are compared, although the texts also differ.
        ([1, 2, 3, 4], [1, 2, 3, 4], True, 1.0),
        ([1, 2, 3, 4], [1, 2, 9, 4], False, 0.5),
        ([1, 2, 3, 4], [1, 2], False, 0.5),
        # One output or both lack token ids: the texts are compared.
        ([1, 2, 3, 4], None, False, 0.8),
        (None, None, False, 0.8),
    ],
)
def test_outputs_are_compared_by_ids_where_possible(
    plain_ids: list[int] | None,
    drafted_ids: list[int] | None,
    identical: bool,
    kept: float,
) -> None:
    transcripts = {
        "plain": make_transcript(plain_ids, "abcde", side="plain"),
        "drafted": make_transcript(drafted_ids, "abcdx", side="drafted"),
    }
    (output_pair,) = output_differences.output_pairs([pair(drafted=DIFFERENT)], transcripts)
    assert output_pair.identical is identical
    assert output_pair.kept == pytest.approx(kept)


def test_without_transcripts_only_identity_is_compared() -> None:
    pairs = output_differences.output_pairs([pair(), pair(drafted=DIFFERENT)], {})
    assert [(o.identical, o.kept) for o in pairs] == [(True, 1.0), (False, None)]


def alike(share: float, prompts: int, *, kept: float = 1.0) -> list[output_differences.OutputPair]:
    """Return comparisons of which `share` are identical, and the others only up to `kept`."""
    same = round(share * prompts)
    return [
        output_differences.OutputPair(
            prompt=str(i), identical=i < same, kept=1.0 if i < same else kept
        )
        for i in range(prompts)
    ]


@pytest.mark.parametrize(
    ("variant_pairs", "control", "beside_control"),
    [
        (alike(1, 32), alike(1, 32), BesideControl.AS_ALIKE),
        # The variant's outputs are like the baseline's as often as the control's, prompt by prompt.
        (alike(0.5, 32, kept=0.4), alike(0.5, 32, kept=0.4), BesideControl.AS_ALIKE),
        (alike(1, 32), alike(0.5, 32), BesideControl.AS_ALIKE),
        (alike(0.5, 32), alike(1, 32), BesideControl.DIFFERS_MORE),
        # The variant's outputs differ as often as the control's, but much earlier.
        (alike(0.5, 64, kept=0.1), alike(0.5, 64, kept=0.9), BesideControl.DIFFERS_MORE),
        # Eight prompts are too few to show that outputs are alike, even if all are identical.
        (alike(1, 8), alike(1, 8), BesideControl.NOT_KNOWN),
        (alike(0.9, 32), alike(1, 32), BesideControl.NOT_KNOWN),
    ],
)
def test_outputs_are_judged_beside_two_servers_without_speculation(
    variant_pairs: list[output_differences.OutputPair],
    control: list[output_differences.OutputPair],
    beside_control: BesideControl,
) -> None:
    judged = present(output_differences.likeness(variant_pairs, control))
    assert judged.beside_control is beside_control


def test_prompts_of_one_side_alone_are_not_judged() -> None:
    other_pairs = [replace(o, prompt=f"other {o.prompt}") for o in alike(1, 8)]
    assert output_differences.likeness(alike(1, 8), other_pairs) is None
    assert output_differences.likeness(alike(1, 8), []) is None


def test_differences_are_reported_beside_the_controls() -> None:
    blocks = tuple(
        each_request(b, lambda r: replace(r, output_sha256=DIFFERENT)) if b.variant == "k7" else b
        for b in runs.make_run().blocks
    )
    run = runs.make_run(blocks=blocks)
    (alone, _) = attention_of(runs.make_facts(run))
    assert "nothing here says how often" in alone
    (beside, _) = attention_of(runs.make_facts(runs.with_control(run)))
    assert "0.0% of the outputs are the baseline's, and 100.0% of those of a second" in beside
    assert "they differ more than two servers without speculation do" in beside


def test_a_run_that_ended_early_says_so() -> None:
    reason = "repetition 2: the deadline passed"
    (line,) = attention_of(runs.make_facts(runs.make_run(repetitions=3, shortened=reason)))
    assert line.startswith("The run was to have 3 repetitions and ended before the last was whole")
    assert reason in line
    (of_one,) = attention_of(runs.make_facts(runs.make_run(shortened=reason)))
    assert of_one.startswith("The run was to have one repetition and ended before it was whole: ")
