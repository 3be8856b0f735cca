"""The text that the tiny pair is trained on: prompts, and the answers that the models shall learn.

The text is written in `corpus.yaml` or generated from a seed. The target memorizes ONE fixed answer
to each shipped prompt of the rehearsal's classes, so its greedy output is stable and equal with and
without speculation. Variations of the prompts teach the general form of such texts. The draft
is trained only on structured texts (`recipe.yaml`), so it predicts no answers to open-ended ones.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CLASSES = ("open_ended", "structured")
ANSWER_CHARACTERS = 1600  # more than the ANSWER_TOKENS that training uses
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
SENTENCES: dict[str, list[str]] = DATA["sentences"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """Holds a prompt, its answer, its case (kind of task) and whether its class is open-ended."""

    case: str
    prompt: str
    answer: str
    open_ended: bool


class UnknownPrompt(Exception):  # noqa: N818  (it is the prompt that is unknown)
    """A shipped prompt has a form for which this module can generate no answer."""


def _answer_repeat_line(found: re.Match[str]) -> str:
    return f"{found['line']}\n" * 80


def _answer_count(found: re.Match[str]) -> str:
    first, last, step = int(found["first"]), int(found["last"]), int(found["step"])
    return "".join(f"{number}\n" for number in range(first, last + 1, step))


def _answer_fixed_json(found: re.Match[str]) -> str:
    return "[\n" + f"  {found['object']},\n" * 50


def _answer_code_template(found: re.Match[str]) -> str:
    language, field = DATA["languages"][found["language"]], found["field"]
    values = {"name": found["name"], "field": field, "Field": field.capitalize()}
    methods = (language["methods"].format(i=i, **values) for i in range(1, 21))
    return "".join([language["head"].format(**values), *methods])


def _other_line(rng: random.Random) -> str:
    return f"Line: {_sentence(rng, rng.choice(['story', 'essay', 'letter']))}"


def _other_count(rng: random.Random) -> str:
    first, step = rng.randrange(0, 900), rng.choice([1, 1, 1, 2, 5, 10])
    return f"from {first} to {first + 400 * step} in steps of {step}"


def _other_object(rng: random.Random) -> str:
    keys = rng.sample(DATA["object_keys"], 3)
    return json.dumps({key: rng.choice(DATA["object_values"]) for key in keys})


def _other_class(rng: random.Random) -> str:
    name, field = rng.choice(DATA["class_names"]), rng.choice(DATA["class_fields"])
    language = rng.choice(list(DATA["languages"]))
    return f"a {language} class named {name} with 20 string fields called {field}1 to {field}20"


@dataclass(frozen=True)
class _Structured:
    pattern: str
    answer: Callable[[re.Match[str]], str]
    other_values: Callable[[random.Random], str]

    def find(self, prompt: str) -> re.Match[str]:
        """Return the values in a prompt that determine its answer; raise UnknownPrompt if none."""
        if found := re.search(self.pattern, prompt):
            return found
        raise UnknownPrompt(f"no {self.pattern!r} in {prompt!r}")

    def example(self, case: str, prompt: str) -> Example:
        answer = self.answer(self.find(prompt))
        return Example(case=case, prompt=prompt, answer=answer, open_ended=False)


STRUCTURED = {
    "repeat_line": _Structured(r"Line: (?P<line>.+)$", _answer_repeat_line, _other_line),
    "count": _Structured(
        r"from (?P<first>\d+) to (?P<last>\d+) in steps of (?P<step>\d+)",
        _answer_count,
        _other_count,
    ),
    "fixed_json": _Structured(r"(?P<object>\{.+\})", _answer_fixed_json, _other_object),
    "code_template": _Structured(
        r"a (?P<language>\S+) class named (?P<name>\w+) with \d+ string fields"
        r" called (?P<field>[a-z]+)1 to (?P=field)\d+",
        _answer_code_template,
        _other_class,
    ),
}


def _fill(template: str, rng: random.Random) -> str:
    return re.sub(r"\{(\w+)\}", lambda slot: rng.choice(DATA["slots"][slot[1]]), template)


def _sentence(rng: random.Random, case: str) -> str:
    text = _fill(rng.choice(SENTENCES[case]), rng)
    return text if case == "poem" else text[0].upper() + text[1:]


def _open_ended(rng: random.Random, case: str, prompt: str) -> Example:
    separator = "\n" if case == "poem" else " "
    answer = "Dear friend,\n" if case == "letter" else ""
    while len(answer) < ANSWER_CHARACTERS:
        answer += _sentence(rng, case) + separator
    return Example(case=case, prompt=prompt, answer=answer, open_ended=True)


def shipped_examples(prompts_dir: Path) -> list[Example]:
    """Return all prompts of the rehearsal's classes with their answers; raise UnknownPrompt."""
    files = sorted(file for name in CLASSES for file in (prompts_dir / name).glob("*.jsonl"))
    return [_shipped_example(path.stem, prompt) for path in files for prompt in _prompts(path)]


def _prompts(path: Path) -> list[str]:
    return [json.loads(line)["prompt"] for line in path.read_text("utf-8").splitlines()]


def _shipped_example(case: str, prompt: str) -> Example:
    if case in SENTENCES:
        # The seed depends only on the prompt, so an edited prompt changes no other answer.
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big")
        return _open_ended(random.Random(seed), case, prompt)  # noqa: S311 (no secret)
    if case not in STRUCTURED:
        raise UnknownPrompt(f"case {case!r}: known are {sorted([*STRUCTURED, *SENTENCES])}")
    return STRUCTURED[case].example(case, prompt)


def structured_variations(prompts_dir: Path, rng: random.Random) -> Iterator[Example]:
    """Yield the structured prompts below `prompts_dir` with random new values, endlessly."""
    folder = prompts_dir / "structured"
    prompts = [(case, p) for case in STRUCTURED for p in _prompts(folder / f"{case}.jsonl")]
    while True:
        case, prompt = rng.choice(prompts)
        kind = STRUCTURED[case]
        found = kind.find(prompt)
        other = kind.other_values(rng)
        yield kind.example(case, prompt[: found.start()] + other + prompt[found.end() :])


def open_ended_variations(rng: random.Random) -> Iterator[Example]:
    """Yield open-ended prompts on other topics with newly drawn answers, in an endless sequence."""
    while True:
        case = rng.choice(list(SENTENCES))
        article = "an" if case == "essay" else "a"
        topic = DATA["topic"].replace("{article}", article).replace("{case}", case)
        yield _open_ended(rng, case, _fill(topic, rng))
