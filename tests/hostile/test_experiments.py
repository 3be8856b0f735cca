"""Changed experiment and prompt files are planned, or refused in a few lines.

Inputs that once caused a failure are in the tests of the modules that read them:
`tests/draftworth/experiment` and `tests/draftworth/records/test_prompt_files.py`.
"""

import argparse
import copy
import json
from contextlib import redirect_stdout, suppress
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from draftworth.cli import plan
from draftworth.errors import ExperimentError, PromptSetError, UserInputError
from draftworth.measuring.streamed_request import request_body
from draftworth.records.prompt_files import load_case
from draftworth.untrusted import printable
from tests.conftest import ROOT
from tests.hostile.fuzzing import SCALARS, TAKEN, TEXTS, VALUES, at, bounded, edit, places, tries
from tests.support.experiments import shipped
from tests.support.specifications import shape

MAX_MESSAGE_CHARACTERS = 20_000
NAMES = (
    "qwen3-32b",
    "qwen3-32b-search",
    "llama-3.1-8b-eagle3",
    "rehearsal",
    "rehearsal-search",
)
SHIPPED = {name: shipped(name) for name in NAMES}
PLACES = {name: [*places(data)] for name, data in SHIPPED.items()}
WORDS = sorted(
    {str(part) for file_places in PLACES.values() for place in file_places for part in place}
)
SHIPPED_VALUES = [
    at(SHIPPED[name], place) for name, file_places in PLACES.items() for place in file_places
]

names = st.one_of(st.sampled_from(WORDS), TEXTS, st.text(max_size=12))
values = st.one_of(
    TAKEN, st.sampled_from(SHIPPED_VALUES), st.integers(), st.floats(), SCALARS, VALUES
)


class Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@st.composite
def edited_files(draw: st.DrawFn) -> bytes:
    """Draw the YAML of one of the project's experiments with one to three changed values."""
    data = copy.deepcopy(SHIPPED[draw(st.sampled_from(NAMES))])
    for _ in range(draw(st.integers(1, 3))):
        edit(draw, data, values=values, names=names)
    return yaml.dump(data, Dumper=Dumper, sort_keys=False).encode()


# The paths of numbers with which the rules and the plan compute. Not each experiment has all of
# them.
QUANTITIES = [
    *(
        place
        for name, file_places in PLACES.items()
        for place in file_places
        if isinstance(at(SHIPPED[name], place), int | float)
    ),
    *(("workload", key) for key in ("seed", "request_timeout_seconds", "requests_per_round")),
    *(("workload", "concurrency"), ("workload", "classes", 0, "weight"), ("rerun",)),
]
quantities = st.one_of(
    *(TAKEN, st.integers(1, 100), st.integers(1, 10_000_000)),
    *(st.floats(0.001, 100), st.floats(0.001, 1e12), st.booleans()),
    st.sampled_from([2**63 - 1, -(2**63)]),
)


@st.composite
def tuned_files(draw: st.DrawFn) -> bytes:
    """Draw the YAML of one of the project's experiments with some other numbers.

    Many of these files are valid, so that `plan` computes with the numbers.
    """
    data = copy.deepcopy(SHIPPED[draw(st.sampled_from(NAMES))])
    for place in draw(st.lists(st.sampled_from(QUANTITIES), min_size=1, max_size=4)):
        with suppress(LookupError, TypeError):  # this experiment lacks the place
            parent = at(data, place[:-1])
            old = parent.get(place[-1], 1) if isinstance(parent, dict) else parent[place[-1]]
            if isinstance(old, int | float):
                parent[place[-1]] = draw(quantities)
    return yaml.dump(data, Dumper=Dumper, sort_keys=False).encode()


TEXT_OF = {name: yaml.dump(data, Dumper=Dumper, sort_keys=False) for name, data in SHIPPED.items()}
# Pieces of YAML's syntax, and characters that YAML does not allow.
SYNTAX = ["<<: *a", "&a ", "*a", "!!int ", "? ", "---\n", "%YAML 1.1\n---\n", "|2\n", "\\UFFFFFFFF"]
DEPTH = ['"\\ud800"', "[" * 300, "{a: " * 300, "- " * 300]
marks = st.sampled_from([*"&*!%@`{}[]:?-|>'\"#,~=\t\\\0\ufeff\x85\u2028\r", *SYNTAX, *DEPTH])


@st.composite
def cut_files(draw: st.DrawFn) -> bytes:
    """Draw the text of an experiment with lines lost, doubled or changed, and with odd bytes."""
    lines = TEXT_OF[draw(st.sampled_from(NAMES))].splitlines()
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.integers(0, len(lines) - 1))
        column = draw(st.integers(0, len(lines[where])))
        inserted = draw(st.one_of(marks, TEXTS, st.text(max_size=8)))
        lines[where : where + 1] = draw(
            st.sampled_from(
                [
                    [],
                    [lines[where]] * 2,
                    [lines[where]] * 500,
                    ["  " + lines[where]],
                    [lines[where].lstrip()],
                    [lines[where][:column] + inserted + lines[where][column:]],
                    [lines[where][:column]],
                ]
            )
        )
        lines = lines or [""]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)):
        return data
    cut = data[: draw(st.integers(0, len(data)))]
    return cut + draw(st.sampled_from([b"", b"\n", b"\xff", b"\xc3", b"\x00"]))


def refused_well(error: UserInputError, path: Path) -> None:
    """Check a refusal: it is short and printable, and names the file and each wrong key's line."""
    message = str(error)
    assert message.startswith(str(path))
    assert message == printable(message)
    assert len(message) <= MAX_MESSAGE_CHARACTERS
    if isinstance(error, ExperimentError):
        assert error.problems
        assert all(p.line is not None for p in error.problems if p.key)


def try_plan(path: Path) -> None:
    arguments = argparse.Namespace(
        experiment=path, assume=[], compiled=[], verbose=True, json=False
    )
    with bounded(), redirect_stdout(StringIO()) as text:
        try:
            plan.run(arguments)
        except UserInputError as error:
            refused_well(error, path)
            return
    planned = text.getvalue()
    assert planned == printable(planned)
    assert "workload    " in planned


@tries(20_000)
@given(data=st.one_of(edited_files(), tuned_files(), cut_files()))
def test_a_changed_experiment_is_planned_or_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_bytes(data)
    try_plan(path)


LINES = [*(ROOT / "prompts" / "structured" / "count.jsonl").read_bytes().splitlines()]
FUNCTION = {"name": "f", "arguments": "{}", "parameters": {"type": "object"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TALK = {
    "id": "a",
    "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": [{"type": "text", "text": "x"}], "tool_call_id": "c"},
    ],
    "max_tokens": 9,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_object"},
}
TEXT = {"id": "b", "text_to_continue": "x", "max_tokens": 9}


@st.composite
def prompt_files(draw: st.DrawFn) -> bytes:
    """Draw one of the project's prompt files with values, lines and bytes changed."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.integers(0, len(lines) - 1))
        value = copy.deepcopy(draw(st.sampled_from([TALK, TEXT, json.loads(LINES[0])])))
        edit(draw, value, values=values, names=names)
        column = draw(st.integers(0, len(lines[where])))
        inserted = draw(st.one_of(st.binary(max_size=8), TEXTS.map(str.encode)))
        lines[where : where + 1] = draw(
            st.sampled_from(
                [
                    [json.dumps(value, default=str).encode()],
                    [lines[where]] * 2,
                    [lines[where][:column]],
                    [lines[where][:column] + inserted + lines[where][column:]],
                    [b"[" * 100_000],
                    [b'{"id": ' + b"9" * 10_000 + b"}"],
                ]
            )
        )
    return b"\n".join(lines)


@tries(2_000)
@given(data=prompt_files())
def test_a_changed_prompt_file_is_read_or_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.jsonl"
    path.write_bytes(data)
    with bounded():
        try:
            case = load_case(path, prompt_class="mine")
        except PromptSetError as error:
            refused_well(error, path)
            return
    for prompt in case.prompts:
        json.dumps(asdict(prompt), ensure_ascii=False).encode()
        assert all(isinstance(text, str) for text in prompt.texts)
        assert request_body(shape(), prompt, seed=0)
    assert all(prompt.id.isprintable() for prompt in case.prompts)
