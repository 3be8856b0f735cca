"""Everything that stores, shows or documents metrics has each metric that is declared once."""

from dataclasses import fields, replace

import pytest

from draftworth.measuring.result_files import llmperf_summary
from draftworth.metrics import definitions
from draftworth.metrics.definitions import MILLISECONDS, Metric
from draftworth.records.results import RequestRecord
from draftworth.records.run_folder import Run
from draftworth.report.contents import document_of
from draftworth.report.csv_files import figures_csv
from lambdas.metrics_publisher.metric_data_calls import plan_block
from stacks.dashboard_graphs import comparisons
from tests.conftest import ROOT
from tests.draftworth.report.runs import make_facts, make_run
from tests.support.blocks import each_request, make_block, make_record
from tests.support.experiments import resolved
from tests.support.present import present

MADE_UP = Metric(
    name="QueueWait",
    field="run_queue_wait_s",
    title="Wait of the client",
    label="wait",
    unit=MILLISECONDS,
    formula="-",
    absent="-",
    better="lower",
    has_speedup=True,
)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "METRICS", (*definitions.METRICS, MADE_UP))


def waiting_run() -> Run:
    blocks = make_run().blocks
    waited = (each_request(b, lambda r: replace(r, run_queue_wait_s=0.125)) for b in blocks)
    return make_run(blocks=tuple(waited))


@pytest.mark.usefixtures("made_up")
def test_a_declared_metric_reaches_tables_plots_and_csv() -> None:
    facts = make_facts(waiting_run())
    document = document_of(facts)
    sections = {section.title: section for section in document.sections}
    figures, _ = sections["Figures"].tables
    assert figures.headings[-1] == "wait ms"
    assert {row[-1] for row in figures.rows} == {"125.0"}
    (quantiles,) = sections["Quantiles of latencies"].tables
    assert "wait" in {row[3] for row in quantiles.rows}
    assert "wait speedup" in sections["Verdict"].tables[0].headings
    assert (
        "structured at 4 requests at a time: median wait 125.0 ms for baseline, 125.0 ms for k7"
        in {plot.title for plot in document.plots}
    )
    rows = {line.split(",")[3] for line in figures_csv(facts).splitlines()}
    assert {"run_queue_wait_s_p50", "run_queue_wait_s_p99", "wait_speedup"} <= rows


@pytest.mark.usefixtures("made_up")
def test_a_declared_metric_reaches_storage_and_dashboard() -> None:
    (call,) = plan_block(make_block()).calls
    (unit,) = {d["Unit"] for d in call if d["MetricName"] == "QueueWait"}
    assert unit == "Milliseconds"
    experiment = resolved("qwen3-32b")
    graphs = comparisons(experiment, "structured", experiment.loads[0])
    assert "Wait of the client (ms)" in {graph.title for graph in graphs}


def test_every_declared_metric_is_listed_once() -> None:
    declared = [value for value in vars(definitions).values() if isinstance(value, Metric)]
    listed = (*definitions.METRICS, *definitions.FINDING_METRICS)
    assert len(declared) == len(listed)
    assert {*declared} == {*listed}


def test_every_request_metric_is_a_records_attribute() -> None:
    attributes = {field.name for field in fields(RequestRecord)} | {"failed"}
    assert {m.field for m in definitions.METRICS if m.of_request} <= attributes


def test_acceptance_is_estimated_where_blocks_share_a_window() -> None:
    estimated = present(definitions.ACCEPTANCE_RATE_ESTIMATED.pooled)
    steps = make_record(chunks=23, tokens_per_step=4.5)  # 99 tokens in 22 chunks after the first
    blocks = (make_block(requests=(steps,), max_tokens_per_step=n) for n in (8, 6))
    eight, six = (replace(block, speculation=None) for block in blocks)
    assert estimated([eight, eight], None) == pytest.approx(3.5 / 7)
    assert estimated([six], None) == pytest.approx(3.5 / 5)
    assert estimated([eight, six], None) is None
    assert estimated([], None) is None


def test_llmperfs_summary_has_the_metrics_that_llmperf_knows() -> None:
    summary = llmperf_summary(make_block()).decode()
    for metric in definitions.METRICS:
        in_llmperf = metric.field in ("inter_token_latency_s", "ttft_s", "end_to_end_latency_s")
        in_llmperf |= metric.field.startswith(("number_", "request_output_"))
        assert (f'"results_{metric.field}_mean"' in summary) is in_llmperf, metric.field


def table_row(metric: Metric) -> str:
    short = f" ({metric.label})" if metric.is_latency and metric.label else ""
    stored = f"`{metric.name}`, {metric.unit.cloudwatch}" if metric.name else "-"
    cells = (
        *(f"{metric.title}{short}", f"`{metric.field}`", metric.unit.name or "-", stored),
        *(metric.better or "-", metric.formula, metric.absent),
    )
    return f"| {' | '.join(cells)} |"


def test_the_documents_table_of_metrics_is_the_declaration() -> None:
    text = (ROOT / "docs" / "appendix" / "metrics.md").read_text()
    table = text.split("\n\n")[2].splitlines()
    declared = (*definitions.METRICS, *definitions.FINDING_METRICS)
    rows = [table_row(metric) for metric in declared]
    assert table[2:] == rows, "the table should be:\n" + "\n".join(rows)
