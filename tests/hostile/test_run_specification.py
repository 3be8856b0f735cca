"""The measuring pod gets prompts of any text unchanged, and refuses a damaged specification."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from draftworth.errors import UserInputError
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.codec import dump_record
from draftworth.records.prompt_files import Case, Prompt
from pods.measuring.read_specification import read_spec
from tests.hostile.fuzzing import TEXTS, VALUES, Place, at, bounded, places, tries
from tests.support.measuring_job import spec_for

SPEC = spec_for("http://127.0.0.1:9")
WORDS = st.one_of(TEXTS, st.text(max_size=200))


def read(folder: Path, data: bytes) -> RunSpec | None:
    """Return the run specification that the pod reads from `data`; None if it is refused."""
    path = folder / "spec.json"
    path.write_bytes(data)
    try:
        with bounded():
            return read_spec(str(path), hashlib.sha256(data).hexdigest(), _no_client)
    except UserInputError as error:
        refused = str(error)
    assert refused.startswith(f"{path}: ")
    assert len(refused) < 2_000
    return None


def _no_client() -> Any:
    raise AssertionError("a file needs no client")


@tries(2_000)
@given(contents=st.lists(WORDS, min_size=1, max_size=5), prompt_id=WORDS)
def test_prompts_of_any_text_arrive_as_they_are(
    tmp_path: Path, contents: list[str], prompt_id: str
) -> None:
    messages = tuple({"role": "user", "content": content} for content in contents)
    prompts = (Prompt(id=prompt_id, messages=messages),)
    case = Case(prompt_class="structured", name="hostile", prompts=prompts)
    spec = dataclasses.replace(SPEC, cases=(case,))
    assert read(tmp_path, dump_record(spec)) == spec


PLACES = list(places(json.loads(dump_record(SPEC))))


@tries(3_000)
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_anywhere_is_taken_or_refused(tmp_path: Path, place: Place, value: Any) -> None:
    changed = json.loads(dump_record(SPEC))
    at(changed, place[:-1])[place[-1]] = value
    spec = read(tmp_path, json.dumps(changed).encode())
    assert spec is None or isinstance(spec, RunSpec)


@tries(3_000)
@given(
    data=st.one_of(
        st.binary(max_size=300),
        st.tuples(st.integers(0, len(dump_record(SPEC)) - 1), st.binary(max_size=8)).map(
            lambda cut: dump_record(SPEC)[: cut[0]] + cut[1] + dump_record(SPEC)[cut[0] + 1 :]
        ),
    )
)
def test_any_bytes_are_taken_or_refused(tmp_path: Path, data: bytes) -> None:
    spec = read(tmp_path, data)
    assert spec is None or isinstance(spec, RunSpec)
