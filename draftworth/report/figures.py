"""Tables of a report: figures, and outputs that differ from the baseline's."""

from collections.abc import Iterator, Mapping, Sequence

from draftworth.analysis.output_differences import BesideControl, Likeness, tokens_before
from draftworth.analysis.scores import ScoreComparison
from draftworth.analysis.summary import OutputLengths, output_lengths
from draftworth.decision.facts import QUANTILE_SHARES, RunFacts, VariantFacts
from draftworth.decision.verdict import Comparison
from draftworth.metrics import definitions
from draftworth.metrics.definitions import Metric
from draftworth.report import words
from draftworth.report.document import Section, Table, table, variant_table
from draftworth.report.likelihood_tables import likelihood_tables
from draftworth.report.words import ABOUT, INTERVAL, MISSING

MOST_DIVERGENCES = 10
DECODE_HEAVY = 0.5


def figures(facts: RunFacts) -> Section:
    """Return the section with all variants' figures, except figures that no variant has."""
    columns = [
        metric
        for metric in definitions.METRICS
        if metric.label and any(_figure(v, metric) != MISSING for v in facts.variants)
    ]
    rows = (
        (
            v,
            (
                *(str(n) for n in (v.summary.counted, v.summary.failed, v.summary.excluded)),
                *(_figure(v, metric) for metric in columns),
            ),
        )
        for v in facts.variants
    )
    headings = ("n", "failed", "excluded", *(metric.heading for metric in columns))
    medians = variant_table(headings, rows, title="Medians of each server")
    tables = (*medians, *_output_lengths(facts))
    return Section(
        title="Figures",
        paragraphs=(ABOUT["medians"], *_decode_heavy(facts)) if tables else (),
        tables=tables,
    )


def _decode_heavy(facts: RunFacts) -> Iterator[str]:
    """Yield a sentence on whether decoding takes most of the time without speculation."""
    shares = [s for g in facts.groups if (s := g.baseline.value(definitions.DECODING)) is not None]
    if shares:
        least, most = min(shares), max(shares)
        degree = "" if least >= DECODE_HEAVY else "not " if most < DECODE_HEAVY else "partly "
        ends = " to ".join(dict.fromkeys(f"{end:.0%}" for end in (least, most)))
        yield ABOUT["decoding"].format(traffic=f"{degree}decode-heavy", share=ends)


def _output_lengths(facts: RunFacts) -> tuple[Table, ...]:
    rows = (
        (v, _length_cells(lengths))
        for v in facts.variants
        if (lengths := output_lengths(v.records))
    )
    headings = ("output tokens, fewest", "median", "most", "ended by")
    return variant_table(headings, rows, title="Lengths of the outputs")


def _length_cells(lengths: OutputLengths) -> tuple[str, ...]:
    ends = ", ".join(f"{reason} {count}" for reason, count in lengths.ends.items())
    return (
        *(words.number(n, digits=0) for n in (lengths.fewest, lengths.median, lengths.most)),
        ends,
    )


def _figure(variant: VariantFacts, metric: Metric) -> str:
    value, estimated = variant.value(metric), variant.acceptance.estimated
    if metric is definitions.ACCEPTANCE_RATE and value is None and estimated is not None:
        return f"~{words.figure(metric, estimated)} (estimate)"
    return words.figure(metric, value)


def quantiles(facts: RunFacts) -> Section:
    """Return the section with the quantiles of every variant's latencies."""
    rows = (
        (v, (m.label, *(words.with_interval_ms(v.quantiles.get((m, s))) for s in QUANTILE_SHARES)))
        for v in facts.variants
        for m in definitions.shown_latencies()
    )
    headings = ("ms", *(f"p{100 * s:g}" for s in QUANTILE_SHARES))
    return Section(
        title="Quantiles of latencies",
        paragraphs=(ABOUT["quantiles"].format(intervals=f"{INTERVAL}s"),),
        tables=variant_table(headings, rows, more_names=1),
    )


def outputs(facts: RunFacts) -> tuple[Section, ...]:
    """Return sections on how many outputs equal the baseline's, and where the others differ first.

    Sampled outputs are not compared. Checks by the likelihoods that a model gives the outputs are
    shown for greedy and for sampled outputs.
    """
    compared = [(v, c) for v in facts.speculative if (c := v.comparison)]
    judged = any(c.likeness for _, c in compared)
    headings = ("of two servers without speculation", "share", "beside them") if judged else ()
    shares = (
        (v, (*_identical_cells(c), *(_likeness_cells(c.likeness) if judged else ())))
        for v, c in compared
    )
    identical = variant_table(
        ("identical", "share", *headings), shares, title="Outputs like the baseline's"
    )
    if temperature := facts.run.result.temperature:
        about = (ABOUT["sampled"].format(temperature=f"{temperature:g}"),) if identical else ()
        tables = (*identical, *likelihood_tables(facts.run.likelihoods))
        return (Section(title="Outputs", paragraphs=about, tables=tables),)
    same = Section(
        title="Greedy outputs",
        paragraphs=(ABOUT["likeness"],) if judged else (),
        tables=(*identical, *likelihood_tables(facts.run.likelihoods)),
    )
    differing = [v for v, c in compared if c.compared_outputs > c.identical_outputs]
    return (same, *_differences(differing))


def _differences(variants: Sequence[VariantFacts]) -> Iterator[Section]:
    if not variants:
        return
    examples = (
        (
            v,
            (
                *(d.prompt, words.number(d.token, digits=0), str(d.character)),
                *(d.baseline_text, d.variant_text),
            ),
        )
        for v in variants
        for d in v.divergences[:MOST_DIVERGENCES]
    )
    yield Section(
        title="Where greedy outputs differ",
        paragraphs=(ABOUT["outputs"],),
        tables=(
            *variant_table(
                ("texts compared", "tokens before, fewest", "median"),
                ((v, _difference_cells(v)) for v in variants),
                title="How much comes before the first difference",
            ),
            *variant_table(
                ("prompt", "token", "character", "the baseline's text", "the variant's"),
                examples,
                more_names=1,
                title="The first differences",
            ),
        ),
    )


def _identical_cells(comparison: Comparison) -> tuple[str, str]:
    if comparison.identical_share is None:
        return "not checked", MISSING
    counted = f"{comparison.identical_outputs} of {comparison.compared_outputs}"
    return counted, words.share(comparison.identical_share)


# The report's words for how often a variant's outputs equal the baseline's, compared with how often
# those of the control (a second server without speculation) do.
_LIKENESS: Mapping[BesideControl, str] = {
    BesideControl.AS_ALIKE: "as alike as two servers without speculation",
    BesideControl.DIFFERS_MORE: "differs more than two servers without speculation",
    BesideControl.NOT_KNOWN: "cannot be told",
}


def _likeness_cells(likeness: Likeness | None) -> tuple[str, str, str]:
    if likeness is None:
        return MISSING, MISSING, "not checked"
    counted = f"{likeness.control_identical} of {likeness.control_compared}"
    part = words.share(likeness.control_identical / likeness.control_compared)
    return counted, part, _LIKENESS[likeness.beside_control]


def score_sections(scores: Sequence[ScoreComparison]) -> Iterator[Section]:
    """Yield a section on the scores that the user's own program gave the outputs, if any."""
    rows = (
        (
            *(comparison.traffic.name, comparison.traffic.load.cell, comparison.variant),
            *(
                words.number(comparison.baseline_mean, digits=3),
                f"{comparison.difference.value:+.3f}",
            ),
            *(words.interval(comparison.difference, digits=3), str(comparison.difference.prompts)),
            str(comparison.difference.samples),
        )
        for comparison in scores
    )
    headings = ("class", "load", "variant", "baseline", "difference", INTERVAL, "prompts", "pairs")
    if tables := table(headings, rows, names=3):
        yield Section(
            title="Scores of the outputs",
            paragraphs=(ABOUT["scores"],),
            tables=tables,
            is_asked_for=True,
        )


def _difference_cells(variant: VariantFacts) -> tuple[str, ...]:
    comparison = variant.comparison
    differing = comparison.compared_outputs - comparison.identical_outputs if comparison else 0
    tokens = tokens_before(variant.divergences) or (None, None)
    compared = f"{len(variant.divergences)} of {differing}"
    return compared, *(words.number(count, digits=0) for count in tokens)
