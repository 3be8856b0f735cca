"""The replay of n-gram drafting, compared with examples, a naive search, and vLLM's own code."""

import json
import random
import subprocess
from collections.abc import Sequence

import pytest

from draftworth.estimate.prompt_lookup import (
    LookedUp,
    LookupLengths,
    match_ends,
    tokens_per_step,
)
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_python


def looked_up(
    prompt: Sequence[int], output: Sequence[int], *, lengths: LookupLengths | None = None
) -> LookedUp:
    return LookedUp(
        prompt_class="structured",
        case="case",
        prompt_id="p0",
        prompt_ids=prompt,
        output_ids=output,
        lengths=lengths or LookupLengths(2, 3),
    )


@pytest.mark.parametrize(
    ("prompt", "output", "checked", "steps"),
    [
        # In the prompt 1 2 is followed by 3 4 5, and in the output too: these drafts are accepted.
        ([9, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 7], 3, [1, 4]),
        ([9, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 7], 1, [1, 2, 2]),
        ([9, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 7], 0, [1, 1, 1, 1, 1]),
        # The earliest 1 2 is followed by 8: every draft is refused.
        ([1, 2, 8, 1, 2, 3], [1, 2, 3], 3, [1, 1]),
        # The longest match decides: 7 1 2 occurs earlier, and is followed by 5.
        ([1, 2, 8, 7, 1, 2, 5, 7, 1], [2, 5, 6], 1, [2]),
        # Nothing occurs twice, so nothing is proposed and each step yields one token.
        ([1, 2], [3, 4, 5], 5, [1, 1]),
        ([1, 2], [3], 5, []),
        ([], [], 5, []),
        # No more tokens are proposed than follow the earlier occurrence, however long the window.
        ([4, 4], [4, 4, 4, 4, 4, 4], 9, [2, 3]),
    ],
)
def test_steps(prompt: list[int], output: list[int], checked: int, steps: list[int]) -> None:
    assert list(looked_up(prompt, output).steps(checked)) == steps


def naive(tokens: Sequence[int], lengths: LookupLengths) -> int | None:
    """The index of the token that is proposed after `tokens`, by a search through all n-grams.

    None: no n-gram occurs earlier.
    """
    for length in range(min(lengths.longest, len(tokens)), lengths.shortest - 1, -1):
        last = tokens[len(tokens) - length :]
        for end in range(length, len(tokens)):
            if tokens[end - length : end] == last:
                return end
    return None


def drawn(count: int) -> list[tuple[list[int], LookupLengths]]:
    draw = random.Random(7)
    made = []
    for _ in range(count):
        shortest = draw.randint(1, 4)
        lengths = LookupLengths(shortest, draw.randint(shortest, 6))
        vocabulary = draw.choice((1, 2, 3, 5))
        made.append(([draw.randrange(vocabulary) for _ in range(draw.randint(1, 40))], lengths))
    return made


def test_a_match_is_the_earliest_of_the_longest() -> None:
    matches = 0
    for tokens, lengths in drawn(300):
        ends = match_ends(tokens, lengths)
        assert ends == [naive(tokens[:n], lengths) for n in range(len(tokens) + 1)]
        matches += sum(end is not None for end in ends)
    assert matches > 1000


VLLM = """
import json, sys
import numpy
from vllm.v1.spec_decode import ngram_proposer
propose = ngram_proposer._find_longest_matched_ngram_and_propose_tokens
for tokens, low, high, window in json.load(sys.stdin):
    known = numpy.array(tokens, dtype=numpy.int32)
    print(json.dumps(propose(known, low, high, 9999, window).tolist()))
"""


@pytest.mark.engine
def test_it_proposes_what_vllm_proposes() -> None:
    cases = [(tokens, lengths, 1 + n % 8) for n, (tokens, lengths) in enumerate(drawn(1000))]
    arguments = [(tokens, n.shortest, n.longest, window) for tokens, n, window in cases]
    done = subprocess.run(
        [engine_python(), "-c", VLLM],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    theirs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    ours = [proposal(*case) for case in cases]
    assert ours == theirs
    assert sum(map(bool, ours)) > 500


def proposal(tokens: list[int], lengths: LookupLengths, window: int) -> list[int]:
    end = match_ends(tokens, lengths)[-1]
    return [] if end is None else tokens[end : end + window]


def test_the_traffic_counts_classes_by_their_tokens() -> None:
    copied, new = [1, 2, 3, 4, 5, 6, 7, 8], [11, 12, 13, 14, 15, 16, 17, 18]
    outputs = [looked_up(copied, copied), looked_up([99], new)]
    outputs[1] = LookedUp(**{**vars(outputs[1]), "prompt_class": "open_ended"})
    both = tokens_per_step(outputs, {"structured": 1.0, "open_ended": 1.0}, checked=9)
    # One class takes 2 steps for 7 tokens, the other takes 7. So two tokens, one of each class,
    # take 2/7 + 1 steps.
    assert both == pytest.approx(2 / (2 / 7 + 1))
    assert tokens_per_step(outputs, {"open_ended": 1.0}, checked=9) == 1


def test_equal_lengths_are_shown_as_one() -> None:
    assert str(LookupLengths(2, 2)) == "2"
    assert str(LookupLengths(1, 4)) == "1 to 4"
