"""Chooses the prompts of a log that are measured, so that they stand for all of its tokens.

All prompts are put in the order of their forecasts. Their output tokens are then cut into equal
parts, and one token of each part is drawn at random: its prompt is chosen. So a prompt is chosen in
proportion to its tokens, and prompts of each forecast are among the chosen ones.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from draftworth.errors import PromptSetError
from draftworth.records import prompt_files
from draftworth.records.codec import RecordError, dump_record, load_object
from draftworth.records.logged_traffic import (
    CHOSEN_CASE,
    ChosenPrompt,
    LoggedTraffic,
    PromptForecast,
    PromptForecasts,
    record_of_choice,
)
from draftworth.safe_writing import write_file
from draftworth.untrusted import one_line, open_file


def chosen_prompts(
    forecasts: Sequence[PromptForecast], parts: int, *, seed: int
) -> tuple[ChosenPrompt, ...]:
    """Return the prompts that stand for `parts` equal parts of all tokens, in random order.

    They are fewer than `parts` if a prompt is so long that it stands for several parts. The order
    is random so that a run which ends early has measured prompts of each forecast.
    """
    generator = random.Random(seed)  # noqa: S311 (a reproducible choice, not a secret)
    in_order = sorted(forecasts, key=lambda f: (f.steps_per_token, f.prompt_class, f.case, f.id))
    counts = Counter(_drawn(in_order, parts, generator))
    chosen = [
        ChosenPrompt(
            id=forecast.id,
            tokens=forecast.tokens,
            steps_per_token=forecast.steps_per_token,
            parts=count,
        )
        for forecast, count in counts.items()
    ]
    generator.shuffle(chosen)
    return tuple(chosen)


def _drawn(
    in_order: Sequence[PromptForecast], parts: int, generator: random.Random
) -> Iterator[PromptForecast]:
    ends = [*accumulate(forecast.tokens for forecast in in_order)]
    index = 0
    for part in range(parts):
        drawn = (part + generator.random()) / parts * ends[-1]
        while ends[index] <= drawn and index < len(ends) - 1:
            index += 1
        yield in_order[index]


@dataclass(frozen=True, kw_only=True)
class ChoiceOrder:
    """The options of a choice.

    forecasts: for all prompts of the log. prompts: the folder of prompt classes that has them.
    out: the folder of prompt classes for the chosen prompts; their class is `prompt_class`.
    parts: how many equal parts of the log's tokens they stand for. seed: decides which are chosen.
    """

    forecasts: PromptForecasts
    prompts: Path
    out: Path
    prompt_class: str
    parts: int
    seed: int = 0

    @property
    def case(self) -> Path:
        return self.out / self.prompt_class / f"{CHOSEN_CASE}{prompt_files.CASE_SUFFIX}"

    @property
    def traffic_file(self) -> Path:
        """The path of the record. A class's own folder may have prompt files alone."""
        return record_of_choice(self.case)


def choose(order: ChoiceOrder) -> LoggedTraffic:
    """Choose prompts, and write their prompt file and the record of the choice, which is returned.

    PromptSetError: a prompt of the forecasts is not in `order.prompts`, two chosen prompts have one
    id, or a file exists already or cannot be written.
    """
    for path in (order.case, order.traffic_file):
        _refuse_existing(path)
    chosen = chosen_prompts(order.forecasts.prompts, order.parts, seed=order.seed)
    traffic = _traffic(order, chosen)
    lines = _lines_of_chosen(order, [prompt.id for prompt in chosen])
    _write(order.case, b"".join(lines), root=order.out)
    _write(order.traffic_file, dump_record(traffic, indent=1), root=order.out)
    return traffic


def _traffic(order: ChoiceOrder, chosen: tuple[ChosenPrompt, ...]) -> LoggedTraffic:
    forecasts = order.forecasts
    tokens = sum(forecast.tokens for forecast in forecasts.prompts)
    return LoggedTraffic(
        prompt_class=order.prompt_class,
        case=CHOSEN_CASE,
        draft=forecasts.draft,
        window=forecasts.window,
        prompts=len(forecasts.prompts),
        tokens=tokens,
        steps_per_token=sum(forecast.steps for forecast in forecasts.prompts) / tokens,
        seed=order.seed,
        chosen=chosen,
    )


def _lines_of_chosen(order: ChoiceOrder, ids: Sequence[str]) -> list[bytes]:
    """Return the chosen prompts' lines of the log's prompt files, in the order of `ids`."""
    wanted = {*ids}
    places = {(f.prompt_class, f.case) for f in order.forecasts.prompts if f.id in wanted}
    lines: dict[str, bytes] = {}
    for prompt_class, case in sorted(places):
        path = order.prompts / prompt_class / f"{case}{prompt_files.CASE_SUFFIX}"
        for prompt_id, line in _lines_by_id(path):
            if prompt_id in lines and prompt_id in wanted:
                raise PromptSetError(
                    f"{path}: id: given {one_line(prompt_id)!r}, which another prompt file has "
                    "too; allowed: ids that are unique in all prompt files, as `prompts import` "
                    "writes them; next: change one of them, and estimate again"
                )
            lines[prompt_id] = line
    if missing := [prompt_id for prompt_id in ids if prompt_id not in lines]:
        raise PromptSetError(
            f"--prompts: {order.prompts}: no prompt {one_line(missing[0])!r} there; allowed: the "
            "folder whose prompts the forecasts are for; next: give workload.prompts_dir of the "
            "experiment that was estimated"
        )
    return [lines[prompt_id] for prompt_id in ids]


def _lines_by_id(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with open_file(path) as file:
            for where, line in prompt_files.lines_of(file, path):
                try:
                    yield str(load_object(line, keys_once=True).get("id")), line.rstrip() + b"\n"
                except RecordError as error:
                    raise PromptSetError(f"{where}: {error}") from error
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be read: {error.strerror}") from error


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise PromptSetError(
            f"{path}: exists already, and is not overwritten; next: another --class, or move the "
            "file away"
        )


def _write(path: Path, content: bytes, *, root: Path) -> None:
    try:
        write_file(path, content, root=root, private=True)
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be written: {error.strerror}") from error
