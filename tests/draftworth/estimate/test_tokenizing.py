"""Token ids of prompts and outputs, which are made without torch and equal transformers' own."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.estimate.tokenizing import FolderTokenizer
from draftworth.records.readings import Output
from tests.conftest import ROOT
from tests.draftworth.estimate.written_runs import TINY_PAIR
from tests.rehearsal.engines import engine_python

TOOL = {"type": "function", "function": {"name": "f", "description": "<é>", "parameters": {}}}
REQUESTS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "Count from <one> to é."}]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1"}]},
    {"messages": [{"role": "user", "content": "Call."}], "tools": [TOOL]},
    {"prompt": "1 2 3"},
]


def output(request: dict[str, Any], text: str = "1 2 3 4", **more: Any) -> Output:
    return Output(
        id="1", prompt_class="a", case="b", prompt_id="c", asked=request, text=text, **more
    )


def ids(folder: Path, request: dict[str, Any], *, thinking: bool = False) -> list[int]:
    return [*FolderTokenizer(folder).prompt_ids(output(request), enable_thinking=thinking)]


def test_recorded_token_ids_precede_those_of_the_text() -> None:
    tokenizer = FolderTokenizer(TINY_PAIR / "target")
    made = [*tokenizer.output_ids(output({}))]
    assert len(made) > 3
    assert [*tokenizer.output_ids(output({}, token_ids=(7, 8)))] == [7, 8]


TRANSFORMERS = """
import json, sys
from transformers import AutoTokenizer
folder, asked = json.load(sys.stdin)
tokenizer = AutoTokenizer.from_pretrained(folder)
for one in asked:
    for thinking in (False, True):
        ids = tokenizer.encode(one["prompt"]) if "prompt" in one else tokenizer.apply_chat_template(
            one["messages"], tools=one.get("tools"), add_generation_prompt=True,
            enable_thinking=thinking, return_dict=False)
        print(json.dumps(ids))
"""


@pytest.mark.engine
def test_prompts_have_the_ids_that_transformers_gives_them() -> None:
    folder = TINY_PAIR / "target"
    done = subprocess.run(
        [engine_python(), "-c", TRANSFORMERS],
        input=json.dumps([str(folder), REQUESTS]),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    both = [(request, thinking) for request in REQUESTS for thinking in (False, True)]
    assert theirs == [ids(folder, request, thinking=thinking) for request, thinking in both]


def written(folder: Path, template: object) -> Path:
    """Write the small target's tokenizer with another chat template in its configuration."""
    tokenizer = (TINY_PAIR / "target/tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(tokenizer)
    config = {"chat_template": template, "bos_token": {"content": "<|im_start|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_template_gets_what_transformers_gives_it(tmp_path: Path) -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}{{ m.content }}{% break %}{% endfor %}"
        "{% if tools is none %} no tools {% else %}{{ tools[0] | tojson }}{% endif %}"
    )
    plain, tools = REQUESTS[1], REQUESTS[2]
    token_ids = ids(written(tmp_path, template), plain)
    assert token_ids == ids(tmp_path, {"prompt": "<|im_start|>Be brief. no tools "})
    with_tools = ids(written(tmp_path, [{"name": "default", "template": template}]), tools)
    assert with_tools == ids(tmp_path, {"prompt": f"<|im_start|>Call.{as_json(TOOL)}"})


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('no tools here') }}", "refuses a prompt: no tools here"),
        ("{% for %}", "its chat template"),
        ("{{ messages.append(1) }}", "refuses a prompt"),
        ("{{ 1 / 0 }}", "refuses a prompt: division by zero"),
        (None, "given: no chat template"),
        (["x", {"name": "rag", "template": "x"}], "given: no chat template"),
        ([{"name": "default"}], "given: no chat template"),
    ],
)
def test_a_template_that_does_not_work_is_named(
    tmp_path: Path, template: object, words: str
) -> None:
    with pytest.raises(UserInputError, match=words):
        ids(written(tmp_path, template), REQUESTS[0])


def test_a_template_that_is_no_text_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, None)
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(UserInputError, match=r"chat_template\.jinja: cannot be read: 'utf-8'"):
        ids(folder, REQUESTS[0])


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"allowed: the tokenizer\.json of the target"):
        ids(tmp_path, REQUESTS[3])
