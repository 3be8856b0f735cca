"""Which answers of a variant are outputs to read."""

from __future__ import annotations

from draftworth.analysis.answered_prompts import asked_of, outputs_of_blocks
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.prompts import Case, Prompt
from draftworth.records.transcripts import Transcript
from tests.support.blocks import make_block, make_failed_record, make_record

MESSAGE = {"role": "user", "content": "Count."}
PROMPT = Prompt(id="prompt-0", messages=(MESSAGE,))
CASES = (Case(prompt_class="structured", name="count", prompts=(PROMPT,)),)


def test_of_requests_of_one_prompt_the_first_that_has_a_text() -> None:
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
    (output,) = outputs_of_blocks([block], transcripts, CASES, variant="baseline")
    assert (output.id, output.text) == ("structured/count/prompt-0", "first")
    assert output.asked == {"messages": PROMPT.messages}


def test_other_variants_and_changed_prompts_have_no_outputs() -> None:
    other = make_block(variant="k7")
    changed = make_block(variant="baseline", load=ConcurrencyLoad(concurrency=1, input_tokens=64))
    transcripts = {"request-0": Transcript(request_id="request-0", text="x")}
    assert not outputs_of_blocks([other, changed], transcripts, CASES, variant="baseline")
    plain = make_block(variant="baseline")
    assert outputs_of_blocks([plain], transcripts, CASES, variant="baseline")


def test_the_chat_template_gets_messages_and_tools_and_a_text_is_continued() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    assert asked_of(Prompt(id="p", messages=(MESSAGE,), tools=(tool,)))["tools"] == (tool,)
    assert "tools" not in asked_of(PROMPT)
