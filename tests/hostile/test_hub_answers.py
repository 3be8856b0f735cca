"""What a model hub may say of a model: it is taken, or there is one clear error."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import HfApi, constants
from hypothesis import given
from hypothesis import strategies as st

from draftworth.errors import DraftworthError
from pods.checkpoint_stager.files import HubFile, served_files
from pods.checkpoint_stager.hub import Hub, HubUnreachableError
from tests.hostile.fuzzing import VALUES, bounded, tries
from tests.support.local_hub import LocalHub, Repo, local_hub

MODEL, COMMIT = "acme/tiny", "a" * 40
FILE = {"rfilename": "model.safetensors", "size": 9, "blobId": "b" * 40}
LFS = {"sha256": "c" * 64, "size": 9, "pointerSize": 100}
CONFIG = {**FILE, "rfilename": "config.json"}


@pytest.fixture(scope="module")
def hub() -> Iterator[LocalHub]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
        patch.setattr("pods.checkpoint_stager.hub.sleep", lambda _: None)
        with local_hub({MODEL: Repo(commits={COMMIT: {}}, refs={"main": COMMIT})}) as running:
            yield running


def model(**changed: Any) -> dict[str, Any]:
    return {"id": MODEL, "sha": COMMIT, "siblings": [CONFIG, {**FILE, "lfs": LFS}], **changed}


def file(**changed: Any) -> dict[str, Any]:
    return model(siblings=[CONFIG, {**FILE, "lfs": LFS, **changed}])


def staged(hub: LocalHub, answer: bytes) -> tuple[HubFile, ...]:
    """What would be staged of the model that the hub tells of."""
    hub.trouble.info = answer
    client = Hub(HfApi(endpoint=hub.url, token=False), MODEL)
    return served_files(client.describe("main").files, MODEL)


def test_a_right_answer_is_taken(hub: LocalHub) -> None:
    """Else the others would be refused for something else."""
    files = staged(hub, json.dumps(model()).encode())
    assert [(f.path, f.size_bytes) for f in files] == [("config.json", 9), (FILE["rfilename"], 9)]


HOSTILE = {
    "nothing": b"",
    "no JSON": b"<html>a proxy</html>",
    "a list": b"[]",
    "depth": b"[" * 100_000,
    "no commit": json.dumps(model(sha=None)).encode(),
    "a commit that is a path": json.dumps(model(sha="../" * 13 + "a")).encode(),
    "a commit that is a number": json.dumps(model(sha=7)).encode(),
    "files that are text": json.dumps(model(siblings="model.safetensors")).encode(),
    "a file that is text": json.dumps(model(siblings=["model.safetensors"])).encode(),
    "a file without a name": json.dumps(model(siblings=[{"size": 1}])).encode(),
    "a name that is a number": json.dumps(file(rfilename=7)).encode(),
    "a size below zero": json.dumps(file(size=-1)).encode(),
    "a size that is text": json.dumps(file(size="9")).encode(),
    "a size of 400 digits": json.dumps(file(size=10**400)).encode(),
    "a size of nearly two": json.dumps(file(size=1.9)).encode(),
    "a git id that is none": json.dumps(file(blobId="../b")).encode(),
    "a hash that is none": json.dumps(file(lfs={**LFS, "sha256": "\u65e5"})).encode(),
    "storage that is a list": json.dumps(file(lfs=[1])).encode(),
    "storage without a hash": json.dumps(file(lfs={"size": 9})).encode(),
    "a date that is none": json.dumps(model(lastModified="yesterday")).encode(),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_that_is_none_is_one_clear_error(hub: LocalHub, answer: bytes) -> None:
    with bounded(), pytest.raises(HubUnreachableError, match="hub") as told:
        staged(hub, answer)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1000


@st.composite
def altered(draw: st.DrawFn) -> dict[str, Any]:
    """An answer in which one or two things are something else."""
    answer: dict[str, Any] = json.loads(json.dumps(model()))
    config, weights = answer["siblings"]
    parts = st.sampled_from([answer, config, weights, weights["lfs"]])
    for _ in range(draw(st.integers(1, 2))):
        part = draw(parts)
        part[draw(st.one_of(st.sampled_from(sorted(part)), st.text(max_size=5)))] = draw(VALUES)
    return answer


@tries(500)
@given(altered())
def test_whatever_a_hub_says_is_taken_or_refused(hub: LocalHub, answer: dict[str, Any]) -> None:
    with bounded():
        try:
            files = staged(hub, json.dumps(answer).encode())
        except DraftworthError:
            files = ()
    assert all(f.path.isprintable() and 0 <= f.size_bytes < 2**60 for f in files)
