"""The CSV files: what a notebook reads from them is what was recorded."""

import csv
import io
from dataclasses import asdict

import pytest

from draftworth.records.results import SpeculationCounters
from draftworth.report.csv_files import FIGURE_COLUMNS, REQUEST_COLUMNS, figures_csv, requests_csv
from draftworth.report.figures import figures
from tests.draftworth.report.runs import make_drafted_block, make_facts, make_plain_block, make_run
from tests.support.blocks import make_block, make_failed_record, make_record


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_requests_come_back_as_they_were_recorded() -> None:
    records = (make_record(0), make_failed_record(1, error_msg='cut, "in" the\nmiddle'))
    block = make_block(requests=records)
    rows = read(requests_csv([block]))
    assert tuple(rows[0]) == REQUEST_COLUMNS
    for row, record in zip(rows, records, strict=True):
        for name, value in asdict(record).items():
            if name != "tokens_per_step":
                assert row[name] == ("" if value is None else str(value)), name
        assert (row["variant"], row["load"], row["block"]) == (block.variant, "c4", "3")
    assert float(rows[0]["inter_token_latency_s"]) == records[0].inter_token_latency_s


def test_tokens_per_step_agree_with_the_figures() -> None:
    counters = SpeculationCounters(
        drafts=66, draft_tokens=462, accepted_tokens=132, generated_tokens=200
    )
    merged = tuple(make_record(index, chunks=12, tokens_per_step=9.0) for index in range(2))
    by_chunk = tuple(make_record(index, chunks=34, tokens_per_step=2.9) for index in range(2))
    for requests, cells in ((merged, {""}), (by_chunk, {"3.0"})):
        block = make_block(
            requests=requests, warmup_requests=0, max_tokens_per_step=8, speculation=counters
        )
        assert {row["tokens_per_step"] for row in read(requests_csv([block]))} == cells


def test_figures_are_those_of_the_report() -> None:
    facts = make_facts()
    rows = read(figures_csv(facts))
    assert tuple(rows[0]) == FIGURE_COLUMNS
    rows_by_figure = {(r["prompt_class"], r["variant"], r["figure"]): r for r in rows}
    speedup = facts.speculative[0].comparison
    assert speedup is not None
    assert speedup.cost_ratio is not None
    row = rows_by_figure["structured", "k7", "cost_ratio"]
    assert float(row["value"]) == speedup.cost_ratio.value
    assert float(row["low"]) == speedup.cost_ratio.low
    assert (row["confidence"], row["prompts"], row["blocks"], row["samples"]) == (
        *("0.95", "8"),
        *("2", "16"),
    )
    assert rows_by_figure["structured", "k7", "judgement"]["value"] == "cheaper per token"
    assert float(rows_by_figure["structured", "k7", "accepted_share_position_1"]["value"]) == 0.9
    assert rows_by_figure["structured", "baseline", "acceptance_rate_counted"]["value"] == ""
    estimated = rows_by_figure["structured", "k7", "acceptance_rate_estimated"]["value"]
    assert float(estimated) == facts.speculative[0].acceptance.estimated
    assert len(rows_by_figure) == len(rows)


@pytest.mark.parametrize(
    ("first_s", "adverb"), [((0.1, 0.1), ""), ((0.1, 0.6), "partly "), ((0.8, 0.6), "not ")]
)
def test_whether_the_traffic_is_decode_heavy(first_s: tuple[float, ...], adverb: str) -> None:
    records = (make_record(ttft_s=ttft_s, end_to_end_latency_s=1.0) for ttft_s in first_s)
    made = (
        make_plain_block(number, f"class{number}", requests=(record,))
        for number, record in enumerate(records)
    )
    section = figures(make_facts(make_run(blocks=tuple(made), variants=("baseline",))))
    assert f"is {adverb}decode-heavy: decoding takes " in section.paragraphs[1]


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_a_text_that_spreadsheets_run_is_disarmed(start: str) -> None:
    name = f"{start}HYPERLINK()"
    block = make_drafted_block(2, "structured", variant=name)
    (row, *_) = read(requests_csv([block]))
    assert row["variant"] == f"'{name}"
    figures = read(figures_csv(make_facts(make_run(blocks=(block,), variants=("baseline", name)))))
    # Figures of the run as a whole have no variant.
    assert {r["variant"] for r in figures} == {"", "baseline", f"'{name}"}
