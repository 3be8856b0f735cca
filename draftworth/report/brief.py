"""The answer of a run in a few lines for a terminal."""

from collections.abc import Callable, Collection, Iterator, Sequence

from draftworth.errors import counted
from draftworth.records.findings import Finding
from draftworth.records.load_shapes import cell_of_label
from draftworth.records.results import AS_SHIPPED
from draftworth.report import judged_with, words
from draftworth.report.answer import Answer, StepTokens
from draftworth.report.break_even_sentences import share_percent
from draftworth.report.drawing import short
from draftworth.report.percent import outwards, says_nothing

MOST_LINES, COLUMNS = 10, 80
# A function that yields lines of the answer.
_Part = Callable[[Answer], Iterator[str]]


def answer_lines(answer: Answer, *, next_commands: Sequence[str], files: str) -> list[str]:
    """Return the answer as at most `MOST_LINES` lines for a terminal, the decision first.

    next_commands: what the reader can run next, at most two. files: where the run's files or its
        report are.
    """
    first = [answer.decision, *_measured(answer)]
    if answer.judged_with:
        first.append(judged_with.line(answer.judged_with, columns=COLUMNS))
    rows = list(_finding_rows(answer) if answer.findings else _figure_rows(answer))
    for dropped in range(len(_LEAST_FIRST) + 1):
        last = _ending(answer, next_commands, files, without=_LEAST_FIRST[:dropped])
        room = MOST_LINES - len(first) - len(last)
        # All costs may take the place of the tokens of a step, and one line of them that of more.
        if len(rows) <= room or (dropped and room > 0):
            break
    return [*first, *_fitting(rows, room), *last]


def _fitting(rows: Sequence[str], room: int) -> list[str]:
    if len(rows) <= room:
        return [*rows]
    rest = counted(len(rows) - room + 1, "more figure")
    return [*rows[: room - 1], f"  and {rest}: --verbose"]


def _ending(
    answer: Answer, next_commands: Sequence[str], files: str, *, without: Collection[_Part]
) -> list[str]:
    """Return the lines after the costs, but for those of some parts."""
    parts: tuple[_Part, ...] = (_splits, _notes, _requests, _cached, _tokens, _engine, _warnings)
    return [
        *(line for part in parts if part not in without for line in part(answer)),
        *([f"Cure:  {answer.cure}"] if answer.cure else ()),
        *(f"Next:  {command}" for command in next_commands),
        f"Files: {files}",
    ]


def _notes(answer: Answer) -> Iterator[str]:
    for note in answer.notes[:1]:
        yield note.split(";")[0].split(", in this order")[0]


def _measured(answer: Answer) -> Iterator[str]:
    """Yield a line with the model and the loads of the run in words."""
    loads = _loads(answer)
    if not (answer.models and loads):
        return
    model = f"Model {', '.join(map(short, answer.models))}"
    line = f"{model}, {words.loads_in_words(loads)}"
    yield line if len(line) <= COLUMNS else f"{model}, {counted(len(loads), 'load')}"


def _loads(answer: Answer) -> list[str]:
    """Return the labels of the measured loads, each once."""
    return [*dict.fromkeys(figures.load for figures in answer.figures)]


def _splits(answer: Answer) -> Iterator[str]:
    """Yield a line on what serving by class saves or, without that, on the break-even share.

    That is the share of one class in the traffic at which variant and baseline cost the same.
    """
    if split := answer.by_class:
        low, high = split.ratio_to_alone_low, split.ratio_to_alone_high
        if split.servers is None or low is None or high is None:
            yield "By class: not shown to cost less than one server for all"
        else:
            near, far = outwards((low, high))
            yield f"By class: costs {near} to {far}% less per token than {split.alone} for all"
    elif equal := [each for each in answer.pays_while if each.share is not None]:
        first = equal[0]
        least = "least" if first.pays_above else "most"
        share = share_percent(first.share or 0.0, first.share_low, first.share_high)
        yield f"Pays while at {least} {share} of output tokens are {short(first.prompt_class)}"


def _finding_rows(answer: Answer) -> Iterator[str]:
    main_findings = [f for f in answer.findings if AS_SHIPPED not in (f.variant, f.baseline)]
    several = len({f.variant for f in main_findings}) > 1
    loads = len(_loads(answer)) > 1
    names = [
        (f.traffic, *([cell_of_label(f.load)] if loads else []), *([f.variant] if several else []))
        for f in main_findings
    ]
    widths = [max(map(len, column)) for column in zip(*names, strict=True)]
    for finding, name in zip(main_findings, names, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(name, widths, strict=True))
        yield f"  {'  '.join(cells)}  {_finding_words(finding)}"


def _finding_words(finding: Finding) -> str:
    if finding.cost_ratio is None:
        return finding.judgement
    low, high = finding.cost_ratio_low, finding.cost_ratio_high
    cost = words.cost_phrase(finding.cost_ratio, low, high)
    if low is not None and high is not None and says_nothing(low, high):
        return cost
    proof = words.proof(
        finding.judgement,
        clears_floor=finding.clears_noise_floor,
        repetitions=finding.holds_for_repetitions,
    )
    return f"{cost}, {proof}"


def _figure_rows(answer: Answer) -> Iterator[str]:
    for f in answer.figures:
        latencies = (
            f"{label} {words.number(value, digits=_digits(value))} ms"
            for label, value in (
                ("ITL", f.inter_token_latency_ms),
                ("TTFT", f.ttft_ms),
                ("E2E", f.end_to_end_latency_ms),
            )
            if value is not None
        )
        rate = f.output_throughput_token_per_s
        tokens = [] if rate is None else [f"{words.number(rate, digits=_digits(rate))} tokens/s"]
        load = f", {cell_of_label(f.load)}" if len(_loads(answer)) > 1 else ""
        yield f"  {f.prompt_class}{load}  {', '.join([*latencies, *tokens])}"


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2


def _requests(answer: Answer) -> Iterator[str]:
    parts = [counted(answer.requests, "request"), f"{answer.failed:,} failed"]
    if answer.excluded:
        parts.append(f"{answer.excluded:,} excluded")
    if answer.repetitions > 1:
        parts.append(counted(answer.repetitions, "repetition"))
    if answer.interruptions:
        parts.append(counted(answer.interruptions, "interruption"))
    if answer.compared_outputs:
        same = f"{answer.identical_outputs:,} of {answer.compared_outputs:,}"
        parts.append(f"outputs the same in {same}")
    yield ", ".join(parts)


def _cached(answer: Answer) -> Iterator[str]:
    if shares := answer.cached_shares:
        line = f"Prompt tokens from a cache: {words.cached_words(shares)}"
        most = f"Prompt tokens from a cache: up to {max(shares.values()):.1%}, of "
        yield line if len(line) <= COLUMNS else f"{most}{counted(len(shares), 'server')}"


def _tokens(answer: Answer) -> Iterator[str]:
    for at in answer.tokens_per_step[:1]:
        if at.measured is not None:
            load = f", {cell_of_label(at.load)}" if len(_loads(answer)) > 1 else ""
            yield f"Tokens per step{load}: {at.measured:.2f} measured{_needed(at)}"


def _engine(answer: Answer) -> Iterator[str]:
    for loss in answer.engine_losses[:1]:
        load = f", {cell_of_label(loss.load)}" if len(_loads(answer)) > 1 else ""
        line = f"{short(loss.variant)}{load}: {loss.summary}"
        yield line if len(line) <= COLUMNS else f"Engine: {loss.summary}"


def _needed(at: StepTokens) -> str:
    if at.servers_differ:
        return "; servers differ in more than speculation"
    if at.needed is None:
        return ""
    if at.needed < 1:
        return "; a step is not shown to cost more than without"
    return f", {at.needed:.2f} to break even in decoding"


def _warnings(answer: Answer) -> Iterator[str]:
    if answer.attention:
        first, *rest = answer.attention
        more = f" (and {len(rest)} more: --verbose)" if rest else ""
        line = f"Warning: {first.partition('. ')[0].rstrip('.')}{more}"
        short = f"{counted(len(answer.attention), 'warning')} before you trust this: --verbose"
        yield line if len(line) <= COLUMNS else short


# What gives way to the costs, the least important first: a step's tokens are why a token costs what
# it does, and a cache that matters stands in the decision.
_LEAST_FIRST: tuple[_Part, ...] = (_tokens, _cached, _notes, _splits, _engine)
