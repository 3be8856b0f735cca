"""Each form of an acceptance profile, with published figures: what is written, and read back.

The tokens per step are those of a MiniMax-M3 head (InferenceX, golden_al_distribution,
minimaxm3_eagle3_gqa). Its recipe for TensorRT-LLM has 1.78 instead of 2.78, without the target's
own token. The acceptance by position is from a published command `vllm serve`.
"""

import json
import math
import re
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from draftworth.estimate.profile_forms import FORMS, inferencex, read_profile, written
from draftworth.records.acceptance_profile import (
    LIMIT_BYTES,
    Measured,
    WindowAcceptance,
    load_profile,
)
from tests.draftworth.conftest import Ran
from tests.draftworth.records import write_golden
from tests.support.snapshot import assert_snapshot

PUBLISHED = """\
# key = num_speculative_tokens (EAGLE3 level); value = golden AL
_metadata:
  draft-model: Inferact/MiniMax-M3-EAGLE3-GQA
minimax-m3:
  thinking_on:
    1: 1.79
    2: 2.39
    3: 2.78
  thinking_off: {3: '2.97'}
"""
GOLDEN = WindowAcceptance(drafts_checked=3, tokens_per_step=Measured(value=2.78))
SHARES = (0.7, 0.5, 0.4)
BY_POSITION = WindowAcceptance(
    drafts_checked=3,
    tokens_per_step=Measured(value=2.6),
    accepted=tuple(Measured(value=share) for share in SHARES),
)
METRICS = """\
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 160.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 70.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 40.0
"""


def test_each_form_counts_the_targets_token_or_not() -> None:
    texts = "".join(
        f"{form}\n{written(form, GOLDEN)}\n{written(form, BY_POSITION)}\n\n" for form in FORMS
    )
    assert_snapshot(texts, Path(__file__).parent / "snapshots" / "profile-forms.txt")


def test_inferencex_lengths_survive_the_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "minimaxm3_eagle3_gqa.yaml"
    path.write_text(PUBLISHED)
    profile = read_profile(path)
    (draft,) = profile.drafts
    assert (profile.target, draft.draft) == ("minimax-m3", "Inferact/MiniMax-M3-EAGLE3-GQA")
    assert draft.classes["thinking_on"][-1] == GOLDEN
    assert draft.classes["thinking_off"][0].tokens_per_step.value == 2.97
    path.write_text(inferencex(profile.target, draft))
    assert read_profile(path) == profile


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", written("table", BY_POSITION)),
        ("a.csv", "accepted,position,note\n0.5,2,x\n0.7,1,x\n0.4,3,x\n"),
        ("a.json", written("vllm", BY_POSITION)),
        ("a.json", json.dumps({"spec_decode_per_position_acceptance_rates": SHARES, "x": 1})),
        ("metrics.txt", METRICS),
    ],
)
def test_shares_by_position_come_back(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    profile = read_profile(tmp_path / name)
    (window,) = profile.drafts[0].classes["all"]
    assert [share.value for share in window.accepted] == pytest.approx(SHARES)
    assert window.tokens_per_step.value == pytest.approx(1 + math.fsum(SHARES))
    assert profile.source == f"the file {name}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: {b: {3: 2.5}}\nc: {b: {3: 2.5}}", "too many values to unpack"),
        ("a.yaml", "a: {b: {3: 4.5}}", "tokens_per_step: given 4.5, allowed: 1 to 4"),
        ("a.yaml", "a: [1]", "no attribute 'items'"),
        ("a.yaml", "a: {", "allowed: an acceptance profile, InferenceX' YAML"),
        ("a.yaml", "[" * 10_000, "allowed: an acceptance profile"),
        ("a.yaml", "a: {b: {3: 2.5, 3: 2.6}}", "given a key that is there twice"),
        ("a.csv", "position,share\n1,0.5", "given 'accepted'; allowed: an acceptance profile"),
        ("a.csv", "position,accepted\n0,0.5", "positions that do not go from 1 without a gap"),
        ("a.csv", "position,accepted\n1,0.5\n2,0.6", "none above the one before"),
        ("a.json", '{"synthetic_acceptance_rates": 0.5}', "given object of type 'float'"),
        ("a.json", '{"schema": "draftworth.answer/1"}', "allowed 'draftworth.acceptance/1'"),
        ("a.json", "7", "given int, allowed: an object"),
        ("a.txt", METRICS.replace("100.0", "0.0"), "counters without a step"),
        ("a.txt", "\xff", "codec can't decode"),
        ("a.json", " " * (LIMIT_BYTES + 1), f"more than {LIMIT_BYTES:,} bytes"),
    ],
)
def test_unusable_files_are_refused_with_what_is_allowed(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(UserInputError, match=re.escape(message)):
        read_profile(tmp_path / name)


def test_the_command_converts_and_demands_what_it_needs(tmp_path: Path, ran: Ran) -> None:
    path = tmp_path / "curve.yaml"
    path.write_text(PUBLISHED)
    ours = ran("profile", path)
    assert load_profile(ours.encode()) == read_profile(path)
    (tmp_path / "ours.json").write_text(ours)
    assert "2: 2.39" in ran("profile", tmp_path / "ours.json", "--form", "inferencex")
    sglang = ("profile", path, "--form", "sglang")
    output = ran(*sglang, code=2)
    assert "--class: given nothing, allowed: one of thinking_on, thinking_off" in output
    output = ran(*sglang, "--class", "thinking_on", "--drafts-checked", "9", code=2)
    assert "--drafts-checked: given 9, allowed: one of 1, 2, 3" in output
    chosen = ("--class", "thinking_on", "--drafts-checked", "3")
    assert ran(*sglang, *chosen).startswith("SGLANG_SIMULATE_ACC_LEN=2.78\n")
    output = ran("profile", path, "--form", "table", *chosen, code=2)
    assert "--form: given table of a window without acceptance by position, allowed: vllm" in output
    path = write_golden.GOLDEN / write_golden.VERSIONS[-1] / "acceptance.json"
    assert ran("profile", path, "--form", "table") == "position,accepted\n1,0.8\n2,0.6\n"
