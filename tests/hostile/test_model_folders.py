"""Any model folder gives token ids, or one message that names the folder.

Each row is a folder whose files once made the command run for ever, take all memory, end by a
signal or print a traceback, because its own process read them. Now a child process with limits
reads them. The limits here are small, so that it soon reaches them.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.errors import DraftworthError, UserInputError
from draftworth.estimate.run_program import environment
from draftworth.estimate.run_tokenizing import TargetTokenizer
from draftworth.estimate.tokenizing import FolderTokenizer
from draftworth.records.readings import Output, TokenLimits
from tests.conftest import ROOT
from tests.draftworth.estimate.written_runs import TINY_PAIR

MIB = 2**20
MOMENT = TokenLimits(seconds=0.2)
LITTLE_MEMORY = TokenLimits(memory_bytes=256 * MIB)
FEW_TOKENS = TokenLimits(tokens=1_000)
FEW_IN_ALL = TokenLimits(tokens_in_all=1_000)
TOKENIZER = json.loads((TINY_PAIR / "target/tokenizer.json").read_text())
OUTPUT = Output(
    id="1",
    prompt_class="a",
    case="b",
    prompt_id="c",
    asked={"messages": [{"role": "user", "content": "a" * 400}]},
    text="1 2 3",
)


def model_folder(folder: Path, template: Any = "{{ messages[0].content }}", **changed: Any) -> Path:
    """Write a small tokenizer into the folder, and return the folder.

    template: its chat template. changed: keys of tokenizer.json with other values.
    """
    (folder / "tokenizer.json").write_text(json.dumps({**TOKENIZER, **changed}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def ids(folder: Path, limits: TokenLimits) -> tuple[int, ...]:
    (one,) = TargetTokenizer(folder, limits).token_ids([OUTPUT], enable_thinking=False)
    return one.prompt_ids


USUAL = TokenLimits()


def refused(folder: Path, limits: TokenLimits = USUAL) -> tuple[int, str]:
    with pytest.raises(DraftworthError) as raised:
        ids(folder, limits)
    message = str(raised.value)
    assert message.isprintable()
    assert str(folder) in message
    assert "; next: " in message
    assert len(message) < 900
    return raised.value.exit_code, message


LOOP = "{% for a in range(99999) %}"
DOUBLED = (
    "{% set all = namespace(text='x') %}{% for n in range(60) %}"
    "{% set all.text = all.text + all.text %}{% endfor %}{{ all.text }}"
)
TEMPLATES: dict[str, tuple[str, TokenLimits, int, str]] = {
    "loops in loops": (LOOP * 4 + "{% endfor %}" * 4, MOMENT, 1, "took too long; allowed: 0.2 s"),
    "a power of a power": ("{{ 9 ** (9 ** 9) }}", MOMENT, 1, "took too long; allowed: 0.2 s"),
    "a text of a terabyte": ("{{ 'x' * 10 ** 12 }}", LITTLE_MEMORY, 2, "takes more memory than"),
    "a width of a terabyte": (
        "{{ 'x' | center(10 ** 12) }}",
        LITTLE_MEMORY,
        2,
        "takes more memory",
    ),
    "a text that doubles": (DOUBLED, LITTLE_MEMORY, 2, "more memory than allowed: 600 s, 0.25 GiB"),
    "too many tokens": ("{{ '1 ' * 100000 }}", FEW_TOKENS, 2, "more tokens than allowed"),
    "tokens of all prompts": ("{{ '1 ' * 2000 }}", FEW_IN_ALL, 2, "of a prompt and 1,000 of all"),
    "a call of itself": (
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        USUAL,
        2,
        "refuses a prompt: maximum recursion depth exceeded",
    ),
    "depth": ("{% if 1 %}" * 3000 + "{% endif %}" * 3000, USUAL, 2, "does not work: Rec"),
    "words of a terminal": ("{{ raise_exception('\x1b[2J\\n') }}", USUAL, 2, "\\x1b[2J"),
}


@pytest.mark.parametrize(
    ("template", "limits", "exit_code", "words"), TEMPLATES.values(), ids=TEMPLATES
)
def test_a_template_of_anybody_ends(
    tmp_path: Path, template: str, limits: TokenLimits, exit_code: int, words: str
) -> None:
    code, message = refused(model_folder(tmp_path, template), limits)
    assert words in message
    assert code == exit_code


def replaced(what: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": what}, "content": content}


GROWS = {"type": "Sequence", "normalizers": [replaced("a", "a" * 64)] * 8}
RETRIES = {
    "type": "Split",
    "pattern": {"Regex": "(a|aa)+$b"},
    "behavior": "Isolated",
    "invert": False,
}
OTHER_TEXT = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "B", "type_id": 0}}],
    "pair": [],
    "special_tokens": {},
}
# Per row: changed keys of tokenizer.json, the limits, the exit code, and words of the message.
TOKENIZERS: dict[str, tuple[dict[str, Any], TokenLimits, int, str]] = {
    "a text that grows": (
        {"normalizer": GROWS},
        LITTLE_MEMORY,
        1,
        "its tokenizer and chat template was ended by signal 6 (Aborted): memory allocation of",
    ),
    "a pattern without an end": (
        {"pre_tokenizer": RETRIES},
        USUAL,
        2,
        "does not work: PanicException: Onig: Regex search error",
    ),
    "nothing that is replaced": ({"normalizer": replaced("", "a")}, USUAL, 2, "Panic"),
    "a text that is not there": ({"post_processor": OTHER_TEXT}, USUAL, 2, "Panic"),
    "another version": ({"version": "\x1b[2J"}, USUAL, 2, "no tokenizer can be read"),
}


@pytest.mark.parametrize(
    ("changed", "limits", "exit_code", "words"), TOKENIZERS.values(), ids=TOKENIZERS
)
def test_a_tokenizer_of_anybody_ends(
    tmp_path: Path, changed: dict[str, Any], limits: TokenLimits, exit_code: int, words: str
) -> None:
    code, message = refused(model_folder(tmp_path, **changed), limits)
    assert words in message
    assert code == exit_code


def test_a_tokenizers_batch_settings_are_not_used(tmp_path: Path) -> None:
    """A large stride of truncation made the tokenizer library panic, and padding made it abort."""
    padding = {
        "strategy": {"Fixed": 10**11},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "x",
    }
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 5}
    plain = ids(model_folder(tmp_path), USUAL)
    assert len(plain) > 4
    changed = model_folder(tmp_path, padding=padding, truncation=truncation)
    assert ids(changed, LITTLE_MEMORY) == plain


FILES: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "bytes": lambda path: path.write_bytes(b"\xff\x00"),
    "depth": lambda path: path.write_text('{"a":' * 10**5),
    "a list": lambda path: path.write_text("[]"),
    "very much": lambda path: path.write_bytes(b"\0" * (65 * MIB)),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "pipe") for name in ("tokenizer.json", "chat_template.jinja")),
        *((name, "very much") for name in ("tokenizer.json", "chat_template.jinja")),
        *(("tokenizer_config.json", kind) for kind in FILES),
    ],
)
def test_a_file_of_any_kind_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    """This process may read such files: it runs nothing in them, and reads a limited size."""
    path = model_folder(tmp_path) / name
    path.unlink(missing_ok=True)
    FILES[kind](path)
    with pytest.raises(UserInputError, match=rf"{name}: (no tokenizer )?can.* be read.*; next: "):
        FolderTokenizer(tmp_path).prompt_ids(OUTPUT, enable_thinking=False)


def test_the_command_ends_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = str(ROOT / "experiments/rehearsal.yaml")
    target = str(model_folder(tmp_path, pre_tokenizer=RETRIES, normalizer=replaced(" ", "a" * 64)))
    options = ("--answers", str(TINY_PAIR / "answers"), "--target", target)
    assert main(["estimate", experiment, *options, "--draft", target]) == 2
    message = capsys.readouterr().err.splitlines()
    assert message[0].startswith(
        f"n-gram drafting is not estimated: {target}: its tokenizer or chat"
    )
    assert message[1].startswith(f"draftworth: --draft: given {target}, a folder without")
    assert len(message) == 2


def test_no_program_of_the_current_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jinja2", "runpy", "tokenizers"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    assert ids(model_folder(tmp_path), USUAL)


def test_the_process_has_no_key_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("TZ", "UTC")
    assert "testing" not in environment().values()
    assert environment()["TZ"] == "UTC"
