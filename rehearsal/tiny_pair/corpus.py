"""The text the tiny pair is trained on: prompts with the answers the models shall give.

Everything is written here or generated from a seed. There are two kinds of example:

* **shipped**: the very prompts of the `prompts/` folder, each with ONE fixed answer. The target
  learns them by heart, so its greedy output is stable and the same with or without speculation.
* **variations**: the same requests with other values (structured) or other topics and freshly
  drawn sentences (open-ended). They teach the draft how such a text sounds, not what it will say:
  at each slot of a sentence it can only guess, which is what an open-ended prompt is to a draft.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ANSWER_CHARACTERS = 1600  # more than the tokens that training uses of it


@dataclass(frozen=True, kw_only=True)
class Example:
    """One prompt with its answer, its case, and whether its class is open-ended."""

    case: str
    prompt: str
    answer: str
    open_ended: bool


class UnknownPrompt(Exception):  # noqa: N818  (it is the prompt that is unknown)
    """A shipped prompt has a form for which no answer is written here."""


# --- structured: the answer follows from the prompt ------------------------------------------

_LINE = re.compile(r"Line: (?P<line>.+)$")
_COUNT = re.compile(r"from (?P<first>\d+) to (?P<last>\d+) in steps of (?P<step>\d+)")
_OBJECT = re.compile(r"(?P<object>\{.+\})")
_CLASS = re.compile(
    r"a (?P<language>\S+) class named (?P<name>\w+) with \d+ string fields"
    r" called (?P<field>[a-z]+)1 to (?P=field)\d+"
)

_METHODS = {
    "Java": (
        "    public String get{Field}{i}() {{\n        return {field}{i};\n    }}\n\n"
        "    public void set{Field}{i}(String value) {{\n"
        "        this.{field}{i} = value;\n    }}\n\n"
    ),
    "C#": (
        "    public string Get{Field}{i}()\n    {{\n        return {field}{i};\n    }}\n\n"
        "    public void Set{Field}{i}(string value)\n"
        "    {{\n        {field}{i} = value;\n    }}\n\n"
    ),
    "Python": (
        "    def get_{field}{i}(self) -> str:\n        return self._{field}{i}\n\n"
        "    def set_{field}{i}(self, value: str) -> None:\n        self._{field}{i} = value\n\n"
    ),
    "TypeScript": (
        "    get{Field}{i}(): string {{\n        return this.{field}{i};\n    }}\n\n"
        "    set{Field}{i}(value: string): void {{\n        this.{field}{i} = value;\n    }}\n\n"
    ),
}
_HEADS = {
    "Java": "public class {name} {{\n",
    "C#": "public class {name}\n{{\n",
    "Python": "class {name}:\n",
    "TypeScript": "export class {name} {{\n",
}


def _answer_repeat_line(found: re.Match[str]) -> str:
    return f"{found['line']}\n" * 80


def _answer_count(found: re.Match[str]) -> str:
    first, last, step = int(found["first"]), int(found["last"]), int(found["step"])
    return "".join(f"{number}\n" for number in range(first, last + 1, step))


def _answer_fixed_json(found: re.Match[str]) -> str:
    return "[\n" + f"  {found['object']},\n" * 50


def _answer_code_template(found: re.Match[str]) -> str:
    language, field = found["language"], found["field"]
    values = {"name": found["name"], "field": field, "Field": field.capitalize()}
    methods = (_METHODS[language].format(i=i, **values) for i in range(1, 21))
    return _HEADS[language].format(**values) + "".join(methods)


def _other_line(rng: random.Random) -> str:
    return f"Line: {_sentence(rng, rng.choice(['story', 'essay', 'letter']))}"


def _other_count(rng: random.Random) -> str:
    first, step = rng.randrange(0, 900), rng.choice([1, 1, 1, 2, 5, 10])
    return f"from {first} to {first + 400 * step} in steps of {step}"


def _other_object(rng: random.Random) -> str:
    words = ["name", "state", "total", "city", "ready", "owner", "size", "open", "kind", "speed"]
    values: list[object] = [True, False, None, 0, 3, 42, "ok", "red", "north", "daily", 1.5]
    keys = rng.sample(words, 3)
    return json.dumps({key: rng.choice(values) for key in keys})


def _other_class(rng: random.Random) -> str:
    name = rng.choice(["Order", "Account", "Ticket", "Vehicle", "Contract", "Student", "Parcel"])
    field = rng.choice(["field", "value", "item", "column", "part", "entry", "option", "label"])
    language = rng.choice(list(_METHODS))
    return f"a {language} class named {name} with 20 string fields called {field}1 to {field}20"


class _Structured(NamedTuple):
    """How to read a structured prompt, answer it, and draw other values for it."""

    pattern: re.Pattern[str]
    answer: Callable[[re.Match[str]], str]
    other_values: Callable[[random.Random], str]


STRUCTURED = {
    "repeat_line": _Structured(_LINE, _answer_repeat_line, _other_line),
    "count": _Structured(_COUNT, _answer_count, _other_count),
    "fixed_json": _Structured(_OBJECT, _answer_fixed_json, _other_object),
    "code_template": _Structured(_CLASS, _answer_code_template, _other_class),
}


# --- open-ended: sentences with slots ----------------------------------------------------------

SLOTS: dict[str, list[str]] = {
    "person": ["the captain", "her brother", "the old teacher", "a stranger", "the baker",
               "my neighbour", "the youngest sister", "the watchmaker", "a tired nurse"],
    "thing": ["lantern", "letter", "rope", "map", "kettle", "violin", "key", "ladder", "coat",
              "mirror", "basket"],
    "place": ["harbour", "kitchen", "orchard", "station", "market", "bridge", "attic", "garden",
              "library", "river"],
    "quality": ["quiet", "broken", "blue", "heavy", "familiar", "empty", "golden", "narrow",
                "bitter", "patient"],
    "time": ["At dawn", "That night", "In the winter", "Before noon", "After the storm",
             "On Sunday", "Years later"],
    "did": ["opened", "carried", "forgot", "repaired", "painted", "found", "sold", "hid",
            "cleaned"],
    "felt": ["afraid", "hopeful", "ashamed", "curious", "calm", "proud", "alone"],
    "matter": ["silence", "traffic", "memory", "language", "trade", "sleep", "trust", "weather",
               "work", "friendship"],
    "group": ["children", "residents", "teachers", "drivers", "visitors", "farmers", "readers"],
    "effect": ["costs more than it gives", "changes slowly", "helps the weakest first",
               "is easy to measure", "is seldom noticed", "comes too late"],
}  # fmt: skip

# What a draft can foresee is set here: a story or a poem has a slot every few words, a letter is
# mostly phrases that every letter has.
OPEN_ENDED: dict[str, list[str]] = {
    "story": [
        "{time} {person} {did} the {quality} {thing} and walked to the {place}.",
        "Nobody in the {place} knew why {person} had {did} the {thing}.",
        '"It is only a {quality} {thing}," said {person}, but nobody believed it.',
        "{time} the {place} was {quality}, and {person} felt {felt} for the first time.",
        "There was a {thing} behind the door, and under it lay a {quality} {thing}.",
        "{person} waited by the {place} until the {thing} was gone.",
        "When {person} came back from the {place}, everything looked {quality}.",
        "So they {did} the {thing} together and never spoke about the {place} again.",
    ],
    "poem": [
        "{quality} {thing},\n{quality} {place},",
        "the {thing} remembers {person},",
        "{time} a {quality} {thing}",
        "and {person} {did} the {place},",
        "{felt} as the {quality} {matter}",
        "of a {thing} in the {place}.",
        "O {place}, O {quality} {thing},",
        "what {matter} {did} you?",
    ],
    "essay": [
        "It is often said that {matter} matters less to {group} than it does to {group}.",
        "On the one hand, {matter} gives {group} a reason to stay; on the other hand, it {effect}.",
        "Consider the example of {person}, who {did} a {thing} and felt {felt} afterwards.",
        "The strongest objection to this view is that {matter} {effect}.",
        "This does not mean that {group} are wrong, only that {matter} {effect}.",
        "History shows that {matter} and {matter} have always depended on each other.",
        "For this reason we should ask what {group} would do without {matter}.",
        "In the end, the question is not whether {matter} {effect}, but who decides.",
    ],
    "letter": [
        "I am writing to you about the {thing} that {person} left in the {place} last year.",
        "Please do not think that I am {felt}; I only want to tell you what happened.",
        "I still remember the day when you {did} the {thing} for me, and I am grateful for it.",
        "If you agree, we could meet in the {place} next week and talk about it in peace.",
        "I would be very glad if you could let me know what you think about the {matter}.",
        "Thank you very much for everything that you have done for the {group} of our town.",
        "As you know, {person} has always taken good care of the {place}.",
        "I hope that this letter finds you well and that the {matter} is better now.",
    ],
}
_TOPICS = "Write {article} {case} about {person}, a {quality} {thing} and the {place}."
_SEPARATORS = {"poem": "\n"}


def _fill(template: str, rng: random.Random) -> str:
    words = SLOTS | {"article": [""], "case": [""]}
    return re.sub(r"\{(\w+)\}", lambda slot: rng.choice(words[slot[1]]), template)


def _sentence(rng: random.Random, case: str) -> str:
    text = _fill(rng.choice(OPEN_ENDED[case]), rng)
    return text if case == "poem" else text[0].upper() + text[1:]


def _open_ended_answer(rng: random.Random, case: str) -> str:
    separator = _SEPARATORS.get(case, " ")
    text = "Dear friend,\n" if case == "letter" else ""
    while len(text) < ANSWER_CHARACTERS:
        text += _sentence(rng, case) + separator
    return text


def _open_ended_prompt(rng: random.Random, case: str) -> str:
    article = "an" if case == "essay" else "a"
    return _fill(_TOPICS.replace("{article}", article).replace("{case}", case), rng)


# --- the two kinds of example --------------------------------------------------------------------


def shipped_examples(prompts_dir: Path) -> list[Example]:
    """Every prompt of the folder with its one fixed answer.

    Raises:
        UnknownPrompt: a prompt has a form that this module cannot answer.
    """
    return [
        _shipped_example(path.stem, line)
        for path in sorted(prompts_dir.glob("*/*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def _found(case: str, prompt: str) -> re.Match[str]:
    """What a structured prompt asks for."""
    found = STRUCTURED[case].pattern.search(prompt)
    if found is None:
        raise UnknownPrompt(f"{case}: no {STRUCTURED[case].pattern.pattern!r} in {prompt!r}")
    return found


def _shipped_example(case: str, line: str) -> Example:
    prompt: str = json.loads(line)["prompt"]
    if case in OPEN_ENDED:
        # Seeded by the prompt alone, so that one edited prompt does not change other answers.
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big")
        answer = _open_ended_answer(random.Random(seed), case)  # noqa: S311 (no secret)
        return Example(case=case, prompt=prompt, answer=answer, open_ended=True)
    if case not in STRUCTURED:
        raise UnknownPrompt(f"case {case!r}: known are {sorted(STRUCTURED | OPEN_ENDED)}")
    answer = STRUCTURED[case].answer(_found(case, prompt))
    return Example(case=case, prompt=prompt, answer=answer, open_ended=False)


def structured_variations(prompts_dir: Path, rng: random.Random) -> Iterator[Example]:
    """Structured prompts of the folder with other values, without end."""
    prompts = [
        (case, json.loads(line)["prompt"])
        for case in STRUCTURED
        for line in (prompts_dir / "structured" / f"{case}.jsonl").read_text("utf-8").splitlines()
    ]
    while True:
        case, prompt = rng.choice(prompts)
        found = _found(case, prompt)
        other = STRUCTURED[case].other_values(rng)
        varied = prompt[: found.start()] + other + prompt[found.end() :]
        answer = STRUCTURED[case].answer(_found(case, varied))
        yield Example(case=case, prompt=varied, answer=answer, open_ended=False)


def open_ended_variations(rng: random.Random) -> Iterator[Example]:
    """Open-ended prompts on other topics with freshly drawn answers, without end."""
    while True:
        case = rng.choice(list(OPEN_ENDED))
        yield Example(
            case=case,
            prompt=_open_ended_prompt(rng, case),
            answer=_open_ended_answer(rng, case),
            open_ended=True,
        )
