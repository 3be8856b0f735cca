"""The page to ask: its script is pinned, names are data, and a run without a decision has none."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.cli import main
from draftworth.records.reading import Run
from draftworth.report import explore
from tests.draftworth.report import runs
from tests.draftworth.report.test_brief import STATES
from tests.draftworth.report.test_rendering import Tags

CHEAPER = STATES["cheaper"]
HOSTILE = "</script><script>alert(1)</script><!--"
SCRIPTS = re.compile(r"<script(?: [^>]*)?>(.*?)</script>", re.DOTALL)


def page_of(folder: Path, run: Run = CHEAPER) -> str:
    return explore.write_exploration(runs.make_facts(run), folder).read_text()


def test_only_the_script_of_this_package_runs_and_it_is_pinned_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "changed.js"
    changed.write_text(explore.SCRIPT.read_text() + "// more\n")
    policies = []
    for script in (explore.SCRIPT, changed):
        monkeypatch.setattr(explore, "SCRIPT", script)
        page = page_of(tmp_path)
        _, code = SCRIPTS.findall(page)
        pin = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        metas = [of for tag, of in Tags(page).elements if tag == "meta" and "http-equiv" in of]
        policies.append(metas[0]["content"] or "")
        assert code == script.read_text()
        assert f"default-src 'none'; script-src 'sha256-{pin}';" in policies[-1]
        assert not re.search(r"url\(|@import|https?://|innerHTML|eval\(", page)
        for _, attributes in Tags(page).elements:
            assert not attributes.keys() & {"src", "href", "action", "style", "onclick", "oninput"}
    assert policies[0] != policies[1]


def test_names_of_a_run_are_data_and_never_markup(tmp_path: Path) -> None:
    blocks = tuple(
        replace(b, variant=HOSTILE) if b.variant == runs.VARIANT else b for b in CHEAPER.blocks
    )
    run = runs.make_run(
        blocks=tuple(replace(b, prompt_class=f"{HOSTILE}{b.prompt_class}") for b in blocks),
        experiment=HOSTILE,
        variants=(runs.BASELINE, HOSTILE),
        class_weights={f"{HOSTILE}{name}": 0.5 for name in ("structured", "open_ended")},
    )
    page = page_of(tmp_path, run)
    data, code = SCRIPTS.findall(page)
    assert code == explore.SCRIPT.read_text()
    assert json.loads(data)["variants"] == [HOSTILE]
    assert "<!--" not in page
    plain, hostile = ([tag for tag, _ in Tags(text).elements] for text in (page_of(tmp_path), page))
    assert hostile == plain


def test_the_page_lies_beside_the_run_and_in_the_folder_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs.write_run(CHEAPER, tmp_path / "run")
    for options, place in (([], folder / "report"), (["--out", str(tmp_path)], tmp_path)):
        assert main(["report", str(folder), "--explore", *options]) == 0
        page = place / "explore.html"
        assert f"page to ask written to {page}: open it in a browser\n" in capsys.readouterr().out
        assert page.read_text().startswith("<!doctype html>")
    assert main(["report", str(folder), "--explore", "--json"]) == 2
    assert "--json: given with --explore" in capsys.readouterr().err


@pytest.mark.parametrize("state", ["failed run", "one server", "inconclusive"])
def test_a_run_without_a_decision_has_no_page(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs.write_run(STATES[state], tmp_path / "run")
    assert main(["report", str(folder), "--explore"]) == 1
    assert "--explore: given a run without a decision (" in capsys.readouterr().err
    assert not (folder / "report").exists()
