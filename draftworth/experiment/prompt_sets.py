"""The prompt files that an experiment names: read once, with a problem for all that is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from draftworth.errors import Key, Problem, PromptSetError, suggestion
from draftworth.experiment.model import Experiment, beside
from draftworth.experiment.patterns import PATTERN_WORDS, SET_NAME_PATTERN
from draftworth.records.prompts import CASE_SUFFIX, Case, load_case
from draftworth.untrusted import one_line


def read_prompt_sets(experiment: Experiment, path: Path) -> Iterator[Case | Problem]:
    """Class by class in the file's order, cases in name order unless the file names them."""
    work = experiment.workload
    root = beside(path, work.prompts_dir)
    # Not Path.is_dir(), which raises for a name that is too long.
    if not os.path.isdir(root):
        yield Problem(
            key=("workload", "prompts_dir"),
            given=f'"{work.prompts_dir}"',
            allowed="a folder with one folder a prompt class",
            reason=f"{root} is not a folder",
        )
        return
    for index, prompt_class in enumerate(work.classes):
        key = ("workload", "classes", index)
        if (root / prompt_class.name).is_dir():
            folder, named = root / prompt_class.name, prompt_class.cases
            yield from _cases((*key, "cases"), folder, named, work.output_tokens)
        else:
            known = sorted(p.name for p in root.glob("*/"))
            yield Problem(
                key=(*key, "name"),
                given=f'"{prompt_class.name}"',
                allowed=", ".join(known) or "a folder name",
                reason=f"a prompt class is a folder in {work.prompts_dir}"
                + suggestion(prompt_class.name, known),
            )


def _cases(
    key: Key, folder: Path, named: tuple[str, ...] | None, most_tokens: int
) -> Iterator[Case | Problem]:
    known = sorted(p.stem for p in folder.glob(f"*{CASE_SUFFIX}"))
    if not known:
        yield Problem(
            key=key,
            given=f"the empty folder {folder.name}",
            allowed=f"a folder with at least one {CASE_SUFFIX} file",
            reason="each file is a case; a class without cases measures nothing",
        )
    others = [p.name for p in folder.iterdir() if _is_meant_as_case(p)]
    for name in sorted(others) if named is None else ():
        yield Problem(
            key=key,
            given=f"the file {one_line(name)} in the folder {folder.name}",
            allowed=f"files that end with {CASE_SUFFIX}, one JSON object a line",
            reason="it would be left out without a word; rename it, or put it elsewhere",
        )
    for index, case in enumerate(named or known):
        place = (*key, index) if named else key
        problem = _problem_of_name(place, folder, case, known)
        yield problem or _case(place, folder, case, most_tokens)


def _problem_of_name(key: Key, folder: Path, case: str, known: list[str]) -> Problem | None:
    if not re.fullmatch(SET_NAME_PATTERN, case):
        return Problem(
            key=key,
            given=f'"{case}"',
            allowed=PATTERN_WORDS[SET_NAME_PATTERN],
            reason="a case's name is part of its result files' names",
        )
    if case not in known:
        return Problem(
            key=key,
            given=f'"{case}"',
            allowed=", ".join(known),
            reason=f"no file {case}{CASE_SUFFIX} in the folder {folder.name}"
            + suggestion(case, known),
        )
    return None


def _case(key: Key, folder: Path, case: str, most_tokens: int) -> Case | Problem:
    path = folder / f"{case}{CASE_SUFFIX}"
    try:
        return load_case(path, prompt_class=folder.name, most_tokens=most_tokens)
    except PromptSetError as error:
        return Problem(
            key=key,
            given=f"the prompt file {case}{CASE_SUFFIX}",
            allowed="JSON Lines with id and prompt, messages or text_to_continue",
            reason=str(error),
        )


def _is_meant_as_case(path: Path) -> bool:
    """`x.JSONL`, `x.json`: not a case's name, and hardly anything else."""
    return path.suffix != CASE_SUFFIX and path.suffix.lower() in (CASE_SUFFIX, ".json")
