"""The text that the tiny pair is trained on: prompts, and the answers that the models shall learn.

The text is written in `corpus.yaml` or generated from a seed. The target memorizes ONE fixed answer
to each shipped prompt of the rehearsal's classes, so its greedy output is stable and equal with and
without speculation. Variations of the prompts teach the general form of such texts. The draft
is trained only on structured texts (`recipe.yaml`): it predicts no answers to open-ended prompts.
"""

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
# The least length of an open-ended answer: more tokens than training uses (ANSWER_TOKENS).
ANSWER_CHARACTERS = 1600
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
SENTENCES: dict[str, list[str]] = DATA["sentences"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A prompt, the answer to learn, its case (kind of task), and whether it is open-ended."""

    case: str
    prompt: str
    answer: str
    open_ended: bool


class UnknownPrompt(Exception):  # noqa: N818  (it is the prompt that is unknown)
    """A shipped prompt belongs to an unknown case, or does not match its case's pattern."""


def _code(match: re.Match[str]) -> str:
    language, field = DATA["languages"][match["language"]], match["field"]
    values = {"name": match["name"], "field": field, "Field": field.capitalize()}
    methods = (language["methods"].format(i=i, **values) for i in range(1, 21))
    return "".join([language["head"].format(**values), *methods])


# For each case (kind of task), a function that makes the answer from the values that the case's
# regular expression finds in the prompt.
ANSWERS: dict[str, Callable[[re.Match[str]], str]] = {
    "repeat_line": lambda match: f"{match['line']}\n" * 80,
    "count": lambda match: "".join(
        f"{number}\n"
        for number in range(int(match["first"]), int(match["last"]) + 1, int(match["step"]))
    ),
    "fixed_json": lambda match: "[\n" + f"  {match['object']},\n" * 50,
    "code_template": _code,
}


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


# For each case (kind of task), a function that makes random text. It replaces the part of a shipped
# prompt that the case's regular expression in DATA finds.
NEW_VALUES: dict[str, Callable[[random.Random], str]] = {
    "repeat_line": lambda rng: f"Line: {_sentence(rng, rng.choice(['story', 'essay', 'letter']))}",
    "count": _other_count,
    "fixed_json": _other_object,
    "code_template": _other_class,
}


def _pattern_match(case: str, prompt: str) -> re.Match[str]:
    if match := re.search(DATA["patterns"][case], prompt):
        return match
    raise UnknownPrompt(f"no {DATA['patterns'][case]!r} in {prompt!r}")


def _structured(case: str, prompt: str) -> Example:
    answer = ANSWERS[case](_pattern_match(case, prompt))
    return Example(case=case, prompt=prompt, answer=answer, open_ended=False)


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
    """Return the rehearsal's prompts with their answers.

    Raise UnknownPrompt if a prompt's case is unknown or its pattern is not in the prompt.
    """
    files = sorted(file for name in CLASSES for file in (prompts_dir / name).glob("*.jsonl"))
    return [_shipped_example(path.stem, prompt) for path in files for prompt in _prompts(path)]


def _prompts(path: Path) -> list[str]:
    return [json.loads(line)["prompt"] for line in path.read_text("utf-8").splitlines()]


def _shipped_example(case: str, prompt: str) -> Example:
    if case in SENTENCES:
        # The seed depends only on the prompt, so an edited prompt changes no other answer.
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big")
        return _open_ended(random.Random(seed), case, prompt)  # noqa: S311 (no secret)
    if case not in ANSWERS:
        raise UnknownPrompt(f"case {case!r}: known are {sorted([*ANSWERS, *SENTENCES])}")
    return _structured(case, prompt)


def structured_variations(prompts_dir: Path, rng: random.Random) -> Iterator[Example]:
    """Yield the structured prompts below `prompts_dir` with random new values, without end."""
    folder = prompts_dir / "structured"
    prompts = [(case, p) for case in ANSWERS for p in _prompts(folder / f"{case}.jsonl")]
    while True:
        case, prompt = rng.choice(prompts)
        match, new_value = _pattern_match(case, prompt), NEW_VALUES[case](rng)
        yield _structured(case, prompt[: match.start()] + new_value + prompt[match.end() :])


def open_ended_variations(rng: random.Random) -> Iterator[Example]:
    """Yield open-ended prompts on random topics, with random answers, without end."""
    while True:
        case = rng.choice(list(SENTENCES))
        article = "an" if case == "essay" else "a"
        topic = DATA["topic"].replace("{article}", article).replace("{case}", case)
        yield _open_ended(rng, case, _fill(topic, rng))
