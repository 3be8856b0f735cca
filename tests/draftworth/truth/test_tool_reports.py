"""Which figures are read from load generators' reports: `reports/` has a small one of each form."""

from pathlib import Path

import pytest

from draftworth.errors import DraftworthError
from draftworth.truth.tool_reports import FORMS, read

REPORTS = Path(__file__).parent / "reports"
FIGURES = {"ttft_ms": 10.0, "itl_ms": 2.0, "e2e_ms": 100.0, "output_tokens": 46}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_figures(form: str) -> None:
    true_figures = {
        k: v for k, v in FIGURES.items() if (form, k) != ("vllm-bench-medians", "output_tokens")
    }
    assert read(form, REPORTS / form) == [pytest.approx(true_figures)]


def test_other_lines_and_missing_figures_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text('starting\n{"ttft_ms": 3}\n{"ttft_ms": null}\ndone: {}\n')
    assert read("lines", tmp_path) == [{"ttft_ms": 3}, {}]


@pytest.mark.parametrize("text", ["{", "[3]", '{"benchmarks": 3}', '{"benchmarks": []}'])
def test_a_report_in_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "guidellm.json").write_text(text)
    with pytest.raises(DraftworthError, match="of the form guidellm cannot be read"):
        read("guidellm", tmp_path)


def test_no_report_and_two_of_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftworthError, match=r"0 files \*\.json in \{folder\}, allowed: one"):
        read("guidellm", tmp_path)
    with pytest.raises(DraftworthError, match="5 files"):
        read("guidellm", REPORTS)
