"""Assembles a report: header, verdict, a comparison with another run, time and cost.

Tables of figures are in `figures`.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain

from draftworth.analysis.costs import run_parts, total
from draftworth.analysis.scores import ScoreComparison
from draftworth.analysis.spread import MANY_REPETITIONS
from draftworth.analysis.statistics import Estimate, interval_of
from draftworth.decision.elsewhere import Across, Elsewhere
from draftworth.decision.facts import RunFacts
from draftworth.decision.judged_anew import as_paid, chosen_values
from draftworth.decision.run_comparison import Change
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY as ITL
from draftworth.records.likelihoods import Prediction
from draftworth.records.results import RequestRecord
from draftworth.records.run_folder import Run
from draftworth.report import judged_with, words
from draftworth.report.all_traffic_section import all_traffic_sections
from draftworth.report.attention import attention_of
from draftworth.report.by_prompt_section import by_prompt_sections
from draftworth.report.cross_checks import cross_checks
from draftworth.report.document import Document, Section, table
from draftworth.report.engine_loss_sentences import loss_sections
from draftworth.report.figures import figures, outputs, quantiles, score_sections
from draftworth.report.first_screen import cards, setting, speeds
from draftworth.report.handover_page import TITLE, handover_section
from draftworth.report.likelihood_tables import predicted_sections
from draftworth.report.other_mixes import other_mixes_sections
from draftworth.report.plots import group_plots
from draftworth.report.reason_sentences import words_of
from draftworth.report.run_differences import differences_words, unlike_words
from draftworth.report.search_report import search_sections
from draftworth.report.search_sentences import search_answer
from draftworth.report.sentences import decision_sentence
from draftworth.report.spending import interruption_words, spending_section
from draftworth.report.verdict_section import repetition_sections, verdict_section
from draftworth.report.words import ABOUT, INTERVAL, MISSING
from draftworth.report.worked import worked_sections


def against_section(changes: Sequence[Change], run: Run, other: Run) -> Section:
    """Return the section that compares a run with another run of the same experiment.

    changes: how each variant's figures in each class at each load differ in the two runs.
    """
    headings = ("cost of a token", INTERVAL, "other's", INTERVAL, "this to other", INTERVAL)
    rows = (
        (
            c.label,
            *(cell for r in (*c.cost_ratios, c.ratio) for cell in words.change_cells(r)),
            *(words.figure(ITL, itl_s) for itl_s in c.baseline_itls_s),
        )
        for c in changes
    )
    return Section(
        title="Against another run",
        paragraphs=(
            f"This run is {run.result.run_id}, the other one is {other.result.run_id}.",
            *(change_sentence(c) for c in changes),
            ABOUT["against"],
        ),
        tables=table(("group and variant", *headings, "baseline ITL ms", "other's"), rows, names=1),
        is_asked_for=True,
    )


def elsewhere_section(elsewhere: Elsewhere) -> Section:
    """Return the section that compares two runs of the same prompts on different systems."""
    runs = (elsewhere.run, elsewhere.other)
    rows = (
        (
            *(a.traffic.name, a.traffic.load.cell, a.variant, a.other_variant),
            *("cost" if a.is_cost else "seconds", *words.change_cells(a.ratio)),
            *(cell for usd in a.usd for cell in _usd_cells(usd)),
        )
        for a in elsewhere.rows
    )
    headings = ("class", "load", "variant", "other's", "of a token", "this to other", INTERVAL)
    usd = ("USD/M tokens", INTERVAL, "other's USD/M tokens", INTERVAL)
    models = (", ".join(run.models) or MISSING for run in runs)
    names = (f"{run.result.run_id} (model {m})" for run, m in zip(runs, models, strict=True))
    return Section(
        title="Against a run of something else",
        paragraphs=(
            "This run is {}, the other one is {}.".format(*names),
            *map(_winner_sentence, elsewhere.winners),
            *dict.fromkeys(chain.from_iterable(map(_doubt_sentences, elsewhere.rows))),
            *(f"Not the same: {differences_words([d])}." for d in elsewhere.differences),
            *(f"Not alike: {unlike_words(unlike)}." for unlike in elsewhere.unlike),
            f"Prices: {'; '.join(_prices(runs))}.",
            ABOUT["elsewhere"],
        ),
        tables=table((*headings, *usd), rows, names=5),
        is_asked_for=True,
    )


def _winner_sentence(across: Across) -> str:
    by = "it" if across.is_cost else "by the server's time, as a price is missing, it"
    ratio = across.ratio
    phrase = words.cost_phrase(ratio.value, ratio.low, ratio.high) if ratio else ""
    sentence = _shown_words(ratio, is_shown=across.is_shown, if_different=f"{by} {phrase}")
    if any(across.doubts):
        sentence = "which costs less is open"
    return (
        f"{across.traffic.label}, the winner here ({across.variant}) against "
        f"{across.other_variant} there: {sentence}."
    )


def _doubt_sentences(across: Across) -> Iterator[str]:
    names = across.variant, across.other_variant
    runs = "this run", "the other one"
    for name, run, doubt in zip(names, runs, across.doubts, strict=True):
        if doubt:
            yield f"What {name} of {run} costs is open: {words_of(doubt)}."


def _usd_cells(usd: Estimate | None) -> tuple[str, str]:
    if usd is None:
        return MISSING, MISSING
    if usd.low is None or usd.high is None:
        return words.dollars(usd.value), MISSING
    return words.dollars(usd.value), f"{words.dollars(usd.low)} to {words.dollars(usd.high)}"


def _prices(runs: tuple[Run, Run]) -> Iterator[str]:
    for name, run in zip(("this run", "the other"), runs, strict=True):
        price = None if run.result.of_own_servers else run.result.price
        parts = (f"{n} {s:g}" for n, s in price.node_shares.items() if s != 1) if price else ()
        shares = ", ".join(parts)
        share_note = f", of a node: {shares}" if shares else ""
        yield f"{name}, {words.price_words(run.result)}{share_note}"


def change_sentence(change_: Change) -> str:
    """Return a sentence on how one variant's cost ratio differs between two runs."""
    if change_.doubt:
        return f"{change_.label}: what has changed is open: {words_of(change_.doubt)}."
    interval = words.change_interval(change_.ratio)
    if_different = f"what speculation changes has changed, by {interval}"
    sentence = _shown_words(change_.ratio, is_shown=change_.is_shown, if_different=if_different)
    return f"{change_.label}: {sentence}."


def _shown_words(ratio: Estimate | None, *, is_shown: bool | None, if_different: str) -> str:
    """Return what the ratio of two runs shows.

    if_different: the words for a ratio that is shown not to be 1.
    """
    if interval_of(ratio) is None:
        return "there is no interval to compare by"
    interval = words.change_interval(ratio)
    if is_shown is None:
        return (
            f"between these starts of the servers it differs by {interval}; other starts may "
            f"differ as much: to show a change takes {MANY_REPETITIONS} repetitions of each run"
        )
    return if_different if is_shown else f"no difference is shown ({interval})"


def _question(facts: RunFacts) -> str:
    if facts.run.search:
        return "does speculation pay, with which draft and window?"
    alone = len(facts.run.result.variants) == 1  # as in every run of `measure`
    return "how fast is this server?" if alone else "does speculation pay?"


def document_of(
    facts: RunFacts,
    *,
    against: Sequence[Section] = (),
    scores: Sequence[ScoreComparison] = (),
    predictions: Sequence[Prediction] = (),
) -> Document:
    """Return the report of a run.

    against: sections that compare the run with other runs or with another load generator.
    scores: comparisons of the scores that the user's own program gave the outputs.
    predictions: tokens per step as measured, and as predicted without a server by running the
        drafts on the outputs.
    """
    sections = [
        *(*search_sections(facts), verdict_section(facts), *by_prompt_sections(facts)),
        *(*worked_sections(facts.run), *repetition_sections(facts), *other_mixes_sections(facts)),
        *(*all_traffic_sections(facts), *against),
    ]
    if facts.claims:
        paragraphs = (*(claim.sentence for claim in facts.claims), ABOUT["claims"])
        sections.append(Section(title="Claims", paragraphs=paragraphs, is_asked_for=True))
    sections += [figures(facts), quantiles(facts), *_groups(facts), cross_checks(facts)]
    sections += (*loss_sections(facts.engine_losses), *predicted_sections(predictions))
    sections += [*outputs(facts), *score_sections(scores), spending_section(as_paid(facts))]
    if facts.speculative or facts.run.search:
        sections.append(handover_section(facts))
    return _document(facts, _question(facts), sections, _header(facts))


def handover_document(facts: RunFacts) -> Document:
    """Return a document with the handover section alone, and the warnings that its reader needs."""
    return _document(facts, TITLE.lower(), [handover_section(facts)])


def _document(
    facts: RunFacts, about: str, sections: Sequence[Section], header: Iterable[tuple[str, str]] = ()
) -> Document:
    chosen = chosen_values(facts)
    return Document(
        title=f"{facts.run.result.experiment}: {about}{judged_with.title(chosen)}",
        decision=decision_sentence(facts),
        setting=tuple(setting(facts)),
        speeds=tuple(speeds(facts)),
        facts=tuple(header),
        attention=(*judged_with.sentences(chosen), *attention_of(facts)),
        cards=tuple(cards(facts)),
        sections=tuple(sections),
    )


def _header(facts: RunFacts) -> Iterator[tuple[str, str]]:
    result = facts.run.result
    start = datetime.fromtimestamp(result.started_at_unix_s, UTC)
    seconds = result.ended_at_unix_s - result.started_at_unix_s
    minutes = (total(run_parts(result)).seconds if facts.run.is_pool else seconds) / 60
    if facts.run.search:
        yield "answer", search_answer(facts.run.search)
    yield "run", result.run_id
    yield "status", f"{result.status} ({result.reason})" if result.reason else result.status
    first = "first run started " if facts.run.is_pool else ""
    yield "measured", f"{first}{start:%Y-%m-%d %H:%M} UTC, {minutes:.1f} min"
    measured = [record for v in facts.variants for record in v.records]
    control = [record for block in facts.control for record in block.requests]
    of_control = f"; control: {_counts(control)}" if control else ""
    yield "requests", f"{_counts(measured)} (client was descheduled){of_control}"
    if facts.cached_shares:
        yield "prompt tokens from a cache", words.cached_words(facts.cached_shares)
    yield "interruptions", interruption_words(result)
    if result.temperature:
        yield "sampling", f"temperature {result.temperature:g}"
    yield "load generator", result.load_generator or MISSING
    yield "client scheduling", result.scheduling
    if (paid := as_paid(facts)).price:
        yield "price", words.price_words(paid)


def _counts(records: Sequence[RequestRecord]) -> str:
    failed = sum(record.failed for record in records)
    excluded = sum(record.excluded is not None for record in records)
    return f"{len(records)}, {failed} failed, {excluded} excluded"


def _groups(facts: RunFacts) -> Iterator[Section]:
    for index, group in enumerate(facts.groups, start=1):
        notes = []
        if not any(v.step_latencies_s for v in group.variants):
            notes.append(ABOUT["no_transcripts"])
        if group.speculative and not any(v.accepted_at for v in group.speculative):
            notes.append(ABOUT["no_counters"])
        plots = tuple(group_plots(facts, index, group))
        yield Section(title=group.group.label, paragraphs=tuple(notes), plots=plots)
