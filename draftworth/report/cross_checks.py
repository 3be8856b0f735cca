"""The report's section that compares measured figures with figures from other sources."""

from draftworth.analysis import checks
from draftworth.decision.facts import GroupFacts, RunFacts, VariantFacts
from draftworth.metrics import definitions
from draftworth.report import words
from draftworth.report.document import Section, Table, variant_table
from draftworth.report.percent import signed_percent
from draftworth.report.words import ABOUT, MISSING


def cross_checks(facts: RunFacts) -> Section:
    """Return the section that compares measured figures with figures from other sources.

    These are latencies by LLMPerf's formula, latencies that the servers recorded themselves, and
    acceptance rates as estimated from tokens per step. llmperf's are shown if it sent the requests.
    """
    by_llmperf = facts.run.result.load_generator == "llmperf"
    return Section(
        title="Cross-checks",
        paragraphs=(*([ABOUT["llmperf"]] if by_llmperf else []), ABOUT["cross_checks"]),
        tables=(
            *(_llmperf_table(facts) if by_llmperf else ()),
            *variant_table(
                (
                    "requests",
                    "mean ITL ms, ours",
                    "the server's",
                    "difference",
                    f"within {checks.SERVER_TOLERANCE:.0%}",
                ),
                ((v, _server_cells(v.server)) for v in facts.variants if v.server),
                title="ITL by the client and by the server",
            ),
            *variant_table(
                (
                    "acceptance, counted",
                    "estimated from tokens per step",
                    f"within {100 * checks.ACCEPTANCE_TOLERANCE:g} points",
                ),
                (
                    (
                        v,
                        (
                            words.share(a.counted),
                            words.share(a.estimated),
                            words.yes_or_no(a.agrees, no="NO"),
                        ),
                    )
                    for v in facts.speculative
                    for a in [v.acceptance]
                ),
                title="Accepted drafts, counted and estimated",
            ),
            *variant_table(
                ("step ms", "tokens/step", "break-even by medians", "most", "predicted speedup"),
                ((v, _break_even_cells(v.break_even)) for v in facts.speculative if v.break_even),
                title="Tokens per step beside break-even",
            ),
        ),
    )


def _llmperf_table(facts: RunFacts) -> tuple[Table, ...]:
    rows = (
        (v, _llmperf_cells(g, v))
        for g in facts.groups
        for v in g.variants
        if v.value(definitions.LLMPERF_INTER_TOKEN_LATENCY) is not None
    )
    headings = ("median ITL ms", "llmperf's", "speedup of medians", "llmperf's")
    return variant_table(headings, rows, title="ITL by llmperf's formula")


def _llmperf_cells(group: GroupFacts, variant: VariantFacts) -> list[str]:
    both = (definitions.INTER_TOKEN_LATENCY, definitions.LLMPERF_INTER_TOKEN_LATENCY)
    cells = [words.figure(metric, variant.value(metric)) for metric in both]
    for metric in both:
        plain, latency = group.baseline.value(metric), variant.value(metric)
        compared = variant is not group.baseline
        cells.append(words.ratio(plain / latency) if compared and plain and latency else MISSING)
    return cells


def _server_cells(check: checks.ServerCheck) -> tuple[str, ...]:
    return (
        str(check.requests),
        words.figure(definitions.INTER_TOKEN_LATENCY, check.ours_s),
        words.figure(definitions.INTER_TOKEN_LATENCY, check.server_s),
        signed_percent(check.difference),
        words.yes_or_no(check.agrees, no="NO"),
    )


def _break_even_cells(prediction: checks.BreakEven) -> tuple[str, ...]:
    return (
        words.number(prediction.step_s * 1e3, digits=2),
        words.figure(definitions.TOKENS_PER_STEP, prediction.tokens_per_step),
        words.figure(definitions.TOKENS_PER_STEP, prediction.needed),
        words.number(prediction.most, digits=0),
        words.ratio(prediction.predicted_speedup),
    )
