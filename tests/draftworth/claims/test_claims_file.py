"""Claims files: which are refused, and in which words; and what `report --claims` shows."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.draftworth.claims.planted import make_planted_run
from tests.draftworth.conftest import Ran
from tests.draftworth.report.runs import write_run
from tests.support.snapshot import assert_snapshot

PUBLISHED = ROOT / "experiments/claims/published.yaml"
CLAIM = "{claim: x, source: a paper, figure: itl_speedup, value: 3, tolerance_percent: 20}"
WRONG = {
    "an unknown key": CLAIM.replace("value", "valeu"),
    "an unknown key beside a method": CLAIM.replace("claim: x", "claim: x, method: ngram, k: 7"),
    "no tolerance": CLAIM.replace(", tolerance_percent: 20", ""),
    "another relation": CLAIM.replace("claim: x", "claim: x, relation: about"),
    "one length": CLAIM.replace("claim: x", "claim: x, input_tokens: [64]"),
    "a condition that is none": CLAIM.replace("claim: x", "claim: x, against: {drft: y}"),
}


def test_each_wrong_file_is_refused_with_its_place(tmp_path: Path, ran: Ran) -> None:
    file, messages = tmp_path / "claims.yaml", ""
    texts = {name: f"temperature: 0\nclaims:\n  - {claim}\n" for name, claim in WRONG.items()}
    for name, text in {**texts, "nothing": "", "no claims": "claims: []\n"}.items():
        file.write_text(text)
        messages += f"{name}\n{ran('report', tmp_path, '--claims', file, code=2)}\n"
    messages += ran("report", tmp_path, "--claims", tmp_path / "none.yaml", code=2)
    text = messages.replace(str(tmp_path), "FOLDER")
    assert_snapshot(text, Path(__file__).with_name("refused_claims.txt"))


@pytest.mark.usefixtures("undrawn")
def test_claims_precede_the_answer_everywhere(tmp_path: Path, ran: Ran) -> None:
    folder = write_run(make_planted_run(), tmp_path / "run")
    output = ran("report", folder, "--claims", PUBLISHED, "--out", tmp_path / "out")
    assert output.startswith("Claims\nup to 3x faster decoding: reproduced: itl_speedup is 3.103 (")
    assert output.index("claimed is 2.5 or more (AWS's post).\n") < output.index("Decision")
    page, markdown = ((tmp_path / "out" / f"report.{kind}").read_text() for kind in ("html", "md"))
    assert "<summary><h2>Claims</h2></summary>" in page
    assert "\n## Claims\n" in markdown
    assert "Claims" not in ran("report", folder)
    claims = json.loads(ran("report", folder, "--claims", PUBLISHED, "--json"))["claims"]
    assert [one["answer"] for one in claims] == ["reproduced"] * 5 + ["not comparable"] * 2
    output = ran("report", folder, "--handover", "--claims", PUBLISHED, code=2)
    assert "--claims: given with --handover" in output
