"""Any acceptance profile is used, or refused in one message that names the file."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.analysis.acceptance import profile_of
from draftworth.cli import main
from draftworth.estimate.profile_forms import read_profile
from draftworth.records.acceptance_profile import LIMIT_BYTES, load_profile
from draftworth.records.codec import dump_record
from tests.draftworth.report import runs
from tests.support.present import present

BREAK = "a\nb: 9\u2028\x1b[2J|"
WINDOWS = [{"drafts_checked": 1, "tokens_per_step": {"value": 1.5}}]


def profile(**changed: Any) -> str:
    drafts = [{"method": "m", "draft": "d", "classes": {"c": WINDOWS}} | changed.pop("drafts", {})]
    top = {"schema": "draftworth.acceptance/1", "target": "t", "source": "s"}
    return json.dumps({**top, "target_token_included": True, "drafts": drafts, **changed})


BOMB = "  b0: &b0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
# Bad acceptance profiles: a file's name, its text, and words of the message about it.
FILES: dict[str, tuple[str, str, str]] = {
    "a target of two lines": ("a.json", profile(target=BREAK), "target: given 'a\\nb: 9"),
    "a source of two lines": ("a.json", profile(source=BREAK), "source: given 'a\\nb: 9"),
    "a draft of two lines": ("a.json", profile(drafts={"draft": BREAK}), "drafts[0].draft: given"),
    "a method of two lines": ("a.json", profile(drafts={"method": BREAK}), "drafts[0].method: giv"),
    "a revision of two lines": ("a.json", profile(target_revision=BREAK), "target_revision: given"),
    "a class of two lines": (
        "a.json",
        profile(drafts={"classes": {BREAK: WINDOWS}}),
        "drafts[0].classes: given 'a\\nb: 9",
    ),
    "no name": ("a.json", profile(drafts={"draft": ""}), "drafts[0].draft: given '', allowed"),
    "a very long name": ("a.json", profile(target="x" * 10**5), "target: given 'xxx"),
    "a draft of two lines in YAML": (
        "a.yaml",
        '_metadata: {draft-model: "a\\nb"}\nt: {c: {1: 1.5}}',
        "given draft: given 'a\\nb', allowed: text of 1 to 500 characters on one line",
    ),
    "a draft that is a list": ("a.yaml", "_metadata: {draft-model: [a]}\nt: {c: {1: 1.5}}", "dra"),
    "a draft without an end": (
        "a.yaml",
        f"_metadata:\n{BOMB}  draft-model: *b8\nt: {{c: {{1: 1.5}}}}",
        "given draft: given [[[[",
    ),
    "a long field of CSV": (
        "a.csv",
        f"position,accepted,note\n1,0.5,{'x' * 2**18}",
        "field larger",
    ),
    "a number of 400 digits": (
        "a.json",
        json.dumps({"synthetic_acceptance_rates": [10**400]}),
        "int too large",
    ),
    "a window of 30 digits": (
        "a.yaml",
        f"t: {{c: {{{10**30}: 1.5}}}}",
        "drafts_checked: given 1000",
    ),
    "a key twice": (
        "a.json",
        '{"synthetic_acceptance_rates": [0.5], "synthetic_acceptance_rates": [0.1]}',
        "given the key 'synthetic_acceptance_rates' twice",
    ),
    "a line of two": (
        "a.csv",
        "position,accepted,note\n1,0.5,a\u2028b\n2,0.6,",
        "none above the one",
    ),
}


@pytest.mark.parametrize(("name", "text", "words"), FILES.values(), ids=FILES)
def test_an_invalid_profile_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert len(text) < LIMIT_BYTES
    assert main(["profile", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"draftworth: {path}: ")
    assert words in message
    assert message.removesuffix("\n").isprintable()
    assert len(message) < 800


# Names that YAML does not read as text unless they are quoted.
NAMES = (
    "a: b",
    "# a",
    "off",
    "1",
    "~",
    "- a",
    "{a",
    "'a",
    '"',
    "&a",
    "!a",
    "a #b",
    " a",
    "é|`",
    "_",
)


@pytest.mark.parametrize("name", NAMES)
def test_yaml_keeps_a_name_of_any_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(profile(target=name, drafts={"draft": name, "classes": {name: WINDOWS}}))
    assert main(["profile", str(path), "--form", "inferencex"]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text) == {
        "_metadata": {"draft-model": name},
        name: {name: {1: 1.5}},
    }
    (tmp_path / "a.yaml").write_text(text)
    (draft,) = read_profile(tmp_path / "a.yaml").drafts
    assert (draft.draft, *draft.classes) == (name, name)


def test_any_runs_profile_can_be_read() -> None:
    block = runs.make_drafted_block(2, "structured", prompt_class=BREAK, variant=BREAK)
    plain = runs.make_plain_block(1, "structured", prompt_class=BREAK)
    run = runs.make_run(
        blocks=(plain, block),
        experiment=BREAK,
        variants=(runs.BASELINE, BREAK),
        max_tokens_per_step={runs.BASELINE: 1, BREAK: 8},
    )
    written = present(profile_of(run))
    assert load_profile(dump_record(written)) == written
    (draft,) = written.drafts
    assert (draft.draft, *draft.classes) == ("a b: 9 \\x1b[2J|",) * 2
