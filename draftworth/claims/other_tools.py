"""The report's section with another load generator's figures beside a run's (`--against FILE`)."""

from collections.abc import Iterator

from draftworth.decision.elsewhere import ALIKE
from draftworth.decision.facts import RunFacts
from draftworth.metrics.definitions import OUTPUT_TOKENS, shown_latencies
from draftworth.report import words
from draftworth.report.document import Section, table
from draftworth.report.words import ABOUT
from draftworth.truth.tool_reports import FORMS, Report
from draftworth.untrusted import one_line

# The keys in `Report.figures` of the latencies that `shown_latencies()` returns, in the same order,
# and of the output tokens.
_NAMES = ("itl_ms", "ttft_ms", "e2e_ms", "output_tokens")


def tool_section(facts: RunFacts, report: Report, path: str) -> Section:
    """Return the section with the figures of another tool's result file beside the run's.

    path: the result file's path, as the user gave it.
    """
    latencies = shown_latencies()
    figures = zip(map(report.figures.get, _NAMES), (*latencies, OUTPUT_TOKENS), strict=True)
    theirs = (
        report.form if report.in_flight is None else f"{report.form} at c{report.in_flight}",
        *(str(report.completed), str(report.sent - report.completed)),
        *(words.number(value, digits=metric.digits) for value, metric in figures),
    )
    ours = (
        (
            *(v.label, str(v.summary.counted), str(v.summary.requests - v.summary.counted)),
            *(words.figure(metric, v.value(metric)) for metric in (*latencies, OUTPUT_TOKENS)),
        )
        for v in facts.variants
    )
    headings = (*(metric.heading for metric in latencies), "output tokens")
    return Section(
        title="Against another load generator",
        paragraphs=(
            f"{one_line(path)} has figures of {report.form}, which stand in the first row.",
            *(f"Not alike: {sentence}." for sentence in _unlike(facts, report)),
            ABOUT["other_tool"],
        ),
        tables=table(("medians of", "requests", "left out", *headings), (theirs, *ours), names=1),
        is_asked_for=True,
    )


def _unlike(facts: RunFacts, report: Report) -> Iterator[str]:
    yield from FORMS[report.form]["differs"]
    if left_out := report.sent - report.completed:
        yield f"it lacks {left_out:,} of {report.sent:,} requests, which failed or were not kept"
    if report.loads > 1:
        yield f"its file has {report.loads} loads, of which the first one is shown"
    loads = {group.group.load.words: group.group.load.in_flight for group in facts.groups}
    other = ", ".join(name for name, in_flight in loads.items() if in_flight != report.in_flight)
    if report.in_flight is None:
        yield "its file does not say how many requests were in flight, so its load may be another"
    elif other:
        yield f"it had {report.in_flight} requests in flight, which is not the load {other}"
    theirs = report.figures.get("output_tokens")
    ours = {number for v in facts.variants if (number := v.value(OUTPUT_TOKENS))}
    if theirs is None:
        yield "its file does not say how many tokens each output has"
    elif unlike := [f"{n:.0f}" for n in sorted(ours) if not abs(n - theirs) <= ALIKE * theirs]:
        tokens = f"{theirs:.0f} tokens in the median, this run's {', '.join(unlike)}"
        yield f"its outputs have {tokens}: it is other work, or another count of tokens"
