"""Which outputs of the target are found in a run or a folder, and which are refused."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.estimate import target_outputs
from draftworth.planning.resolved import load
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from tests.draftworth.estimate.written_runs import (
    EXPERIMENT,
    HUB_EXPERIMENT,
    TINY_PAIR,
    write_answers,
)
from tests.support.blocks import make_block, make_failed_record, make_record, make_run
from tests.support.readings import make_output, make_reading

MESSAGE = {"role": "user", "content": "Count."}
PROMPT = Prompt(id="prompt-0", messages=(MESSAGE,))
CASES = (Case(prompt_class="structured", name="count", prompts=(PROMPT,)),)


def run_at(*lengths: int | None) -> Run:
    def block(length: int | None) -> Any:
        load = ConcurrencyLoad(concurrency=1, input_tokens=length)
        return make_block(variant="baseline", load=load)

    blocks = tuple(block(length) for length in lengths)
    return Run(result=make_run(*blocks), blocks=blocks)


def test_a_prompts_first_request_with_text_counts() -> None:
    block = make_block(
        variant="baseline",
        requests=(
            make_failed_record(request_id="failed", prompt_id="prompt-0"),
            make_record(request_id="lost", prompt_id="prompt-0"),
            make_record(request_id="first", prompt_id="prompt-0"),
            make_record(request_id="second", prompt_id="prompt-0"),
            make_record(request_id="strange", prompt_id="prompt-9"),
        ),
    )
    transcripts = {
        name: Transcript(request_id=name, text=name)
        for name in ("failed", "first", "second", "strange")
    }
    (output,) = target_outputs.outputs_of_blocks([block], transcripts, CASES, variant="baseline")
    assert (output.id, output.text) == ("structured/count/prompt-0", "first")
    assert output.asked == {"messages": PROMPT.messages}


def test_other_variants_and_changed_prompts_have_no_outputs() -> None:
    other = make_block(variant="k7")
    changed = make_block(variant="baseline", load=ConcurrencyLoad(concurrency=1, input_tokens=64))
    transcripts = {"request-0": Transcript(request_id="request-0", text="x")}
    assert not target_outputs.outputs_of_blocks(
        [other, changed], transcripts, CASES, variant="baseline"
    )
    plain = make_block(variant="baseline")
    assert target_outputs.outputs_of_blocks([plain], transcripts, CASES, variant="baseline")


def test_the_chat_template_gets_messages_and_tools() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    assert target_outputs.prompt_content(Prompt(id="p", messages=(MESSAGE,), tools=(tool,)))[
        "tools"
    ] == (tool,)
    assert "tools" not in target_outputs.prompt_content(PROMPT)


def test_classes_without_outputs_are_named() -> None:
    target_outputs.check_classes(
        ["a", "b"], [make_output(prompt_class="a"), make_output(prompt_class="b")]
    )

    with pytest.raises(UserInputError, match=r"no outputs of classes b, c: .*next: .*answers of"):
        target_outputs.check_classes(["a", "b", "c"], [make_output(prompt_class="a")])


def test_classes_whose_outputs_have_one_token_are_named() -> None:
    target_outputs.check_lengths(
        ["a"], [make_reading("", prompt_class="a"), make_reading("1", prompt_class="a")]
    )

    with pytest.raises(UserInputError, match=r"outputs of class b: given: none longer than one"):
        target_outputs.check_lengths(
            ["a", "b"], [make_reading("1", prompt_class="a"), make_reading("", prompt_class="b")]
        )
    with pytest.raises(UserInputError, match=r"outputs of classes a, b: .*next: give longer"):
        target_outputs.check_lengths(
            ["a", "b"], [make_reading("", prompt_class="a"), make_reading("", prompt_class="b")]
        )


def test_a_run_of_made_prompts_alone_is_refused() -> None:
    with pytest.raises(UserInputError, match=r"input_tokens of 512, 2,000.*next: measure with a"):
        target_outputs.outputs_of_run(run_at(2000, 512), {}, [])

    with pytest.raises(UserInputError, match="transcripts are missing"):
        target_outputs.outputs_of_run(run_at(512, None), {}, [])


def test_the_shipped_answers_are_to_every_shipped_prompt() -> None:
    experiment = load(EXPERIMENT)
    outputs = target_outputs.read_target_outputs(experiment, TINY_PAIR / "answers")

    assert outputs.run is None
    sent = {(c.prompt_class, c.name, p.id) for c in experiment.cases for p in c.prompts}
    assert {(o.prompt_class, o.case, o.prompt_id) for o in outputs.outputs} == sent
    assert all(o.text for o in outputs.outputs)


def test_answers_to_other_cases_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "case.jsonl").write_text('{"id": "a", "text": "yes"}\n')

    assert target_outputs.read_target_outputs(load(EXPERIMENT), tmp_path).outputs == []


def test_a_folder_without_run_or_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserInputError):
        target_outputs.read_target_outputs(load(EXPERIMENT), tmp_path)


def test_a_class_without_answers_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_answers(tmp_path / "run", "elsewhere/target/")

    assert main(["estimate", str(EXPERIMENT), "--answers", str(run)]) == 2

    assert "no outputs of class open_ended" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("experiment", "target", "platform"),
    [
        (EXPERIMENT, "../models/another", ""),
        (EXPERIMENT, "Qwen/Qwen3-32B", "neuron"),
        (HUB_EXPERIMENT, "Qwen/Qwen3-8B", ""),
        (HUB_EXPERIMENT, "Another/Qwen3-32B", ""),
    ],
)
def test_another_models_outputs_are_refused_with_both_names(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    experiment: Path,
    target: str,
    platform: str,
) -> None:
    run = write_answers(tmp_path / "run", target, of=experiment, platform=platform)
    folders = ("--draft", str(TINY_PAIR / "draft"), "--target", str(TINY_PAIR / "target"))

    assert main(["estimate", str(experiment), "--answers", str(run), *folders]) == 2

    errors = capsys.readouterr().err
    assert f"given: outputs of {target}, allowed: of " in errors
    assert "the experiment's target" in errors
