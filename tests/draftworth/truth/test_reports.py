"""What is read of the reports of load generators; each file has what matters of a real one."""

import json
from pathlib import Path

import pytest

from draftworth.truth.reports import FORMS, ReportError, read

SAID = {"ttft_ms": 10.0, "itl_ms": 2.0, "e2e_ms": 100.0, "output_tokens": 46}
# By form: the name of the file, and its content.
REPORTS = {
    "lines": ("stdout", json.dumps({**SAID, "prompt": "a"})),
    "aiperf": (
        "profile_export.jsonl",
        (
            '{"metrics": {"time_to_first_token": {"value": 10}, "inter_token_latency": '
            '{"value": 2}, "request_latency": {"value": 100}, "output_sequence_length": '
            '{"value": 46}}}'
        ),
    ),
    "guidellm": (
        "guidellm.json",
        (
            '{"benchmarks": [{"requests": {"successful": [{"time_to_first_token_ms": 10, '
            '"inter_token_latency_ms": 2, "request_latency": 0.1, "output_tokens": 46}]}}]}'
        ),
    ),
    "vllm-bench": (
        "vllm.json",
        '{"ttfts": [0.01], "latencies": [0.1], "output_lens": [46], "itls": [[0.09]]}',
    ),
    "inference-perf": (
        "report/per_request_lifecycle_metrics.json",
        (
            '[{"computed_metrics": {"time_to_first_token": 0.01, "time_per_output_token": 0.002, '
            '"request_latency": 0.1, "output_tokens": 46}}]'
        ),
    ),
    "llmperf": (
        "a_individual_responses.json",
        (
            '[{"ttft_s": 0.01, "inter_token_latency_s": 0.002, "end_to_end_latency_s": 0.1, '
            '"number_output_tokens": 46}]'
        ),
    ),
}


def write(folder: Path, form: str) -> None:
    name, content = REPORTS[form]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_figures(form: str, tmp_path: Path) -> None:
    write(tmp_path, form)
    [row] = read(form, tmp_path)
    assert {name: row[name] for name in SAID} == pytest.approx(SAID)


def test_other_lines_and_figures_that_are_missing_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text('starting\n{"ttft_ms": 3}\n{"ttft_ms": null}\ndone: {}\n')
    assert read("lines", tmp_path) == [{"ttft_ms": 3}, {}]


@pytest.mark.parametrize("text", ["{", "[3]", '{"benchmarks": 3}', '{"benchmarks": []}'])
def test_a_report_in_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "guidellm.json").write_text(text)
    with pytest.raises(ReportError, match="of the form guidellm cannot be read"):
        read("guidellm", tmp_path)


def test_no_report_and_two_of_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"0 files \*\.json in \{folder\}, allowed: one"):
        read("guidellm", tmp_path)
    write(tmp_path, "guidellm")
    write(tmp_path, "vllm-bench")
    with pytest.raises(ReportError, match=r"2 files"):
        read("guidellm", tmp_path)
