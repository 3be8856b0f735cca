"""An answer of the Hugging Face hub about a model is used, or becomes one clear error."""

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, constants
from hypothesis import given
from hypothesis import strategies as st

from draftworth.errors import DraftworthError
from pods.checkpoint_stager.hub import Hub, HubUnreachableError
from pods.checkpoint_stager.model_files import HubFile, served_files
from tests.hostile.fuzzing import VALUES, bounded, tries
from tests.support.local_hub import LISTING, LocalHub, Repo, local_hub

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
    """Return what would be staged of the model if the hub answers this."""
    hub.trouble.info = answer
    client = Hub(HfApi(endpoint=hub.url, token=False), MODEL)
    return served_files(client.describe("main").files, MODEL)


def test_a_right_answer_is_taken(hub: LocalHub) -> None:
    """If the unchanged answer were refused, the tests of changed answers would prove nothing."""
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
    "a file without a size": json.dumps(
        model(siblings=[{"rfilename": "a", "blobId": "b" * 40}])
    ).encode(),
    "a file twice": json.dumps(model(siblings=[CONFIG, CONFIG, {**FILE, "lfs": LFS}])).encode(),
    "a file twice, of other sizes": json.dumps(
        model(siblings=[CONFIG, {**FILE, "lfs": LFS}, {**CONFIG, "size": 10}])
    ).encode(),
    "a date that is none": json.dumps(model(lastModified="yesterday")).encode(),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_an_unusable_answer_is_one_clear_error(hub: LocalHub, answer: bytes) -> None:
    with bounded(), pytest.raises(HubUnreachableError, match="hub") as error:
        staged(hub, answer)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


def test_a_file_that_is_listed_twice_is_named(hub: LocalHub) -> None:
    """A commit has one content per path, so a list with a path twice is wrong."""
    twice = json.dumps(model(siblings=[CONFIG, CONFIG, {**FILE, "lfs": LFS}])).encode()
    with pytest.raises(HubUnreachableError, match=r"acme/tiny at main: .* twice: config\.json"):
        staged(hub, twice)


# Answers without an end


ONE_FILE = Repo(commits={COMMIT: {"config.json": b"{}"}}, refs={"main": COMMIT})


@pytest.fixture
def small(hub: LocalHub) -> Iterator[LocalHub]:
    """A hub with one small file in its model."""
    hub.trouble.info, hub.repos[MODEL] = None, ONE_FILE
    yield hub
    hub.trouble.endless.clear()
    hub.trouble.compressed.clear()


def read(hub: LocalHub, folder: Path, clock: Callable[[], float] = lambda: 0.0) -> None:
    client = Hub(HfApi(endpoint=hub.url, token=False), MODEL, clock=clock)
    size_bytes = client.describe("main").files[0].size_bytes
    client.download("config.json", COMMIT, folder, size_bytes=size_bytes)


@pytest.mark.parametrize("what", ["config.json", LISTING])
def test_an_answer_with_too_many_bytes_is_ended(small: LocalHub, tmp_path: Path, what: str) -> None:
    small.trouble.endless[what] = b"{" * 2**16
    with pytest.raises(HubUnreachableError, match=r"more than 33,554,432 bytes") as failure:
        read(small, tmp_path)
    assert_one_sentence(failure.value, small)


@pytest.mark.parametrize("what", ["config.json", LISTING])
def test_an_answer_that_takes_too_long_is_ended(small: LocalHub, tmp_path: Path, what: str) -> None:
    """The test's clock advances a minute at each call."""
    small.trouble.endless[what] = b"{"
    with pytest.raises(HubUnreachableError, match=r"not at its end after 600 s") as failure:
        read(small, tmp_path, itertools.count(0.0, 60.0).__next__)
    assert_one_sentence(failure.value, small)


def assert_one_sentence(error: DraftworthError, hub: LocalHub) -> None:
    text = str(error)
    assert error.exit_code == 1
    assert text.startswith(f"{MODEL} at ")
    assert f"the answer of {hub.url}" in text
    assert "; next: " in text
    assert text.isprintable()


def test_a_file_that_comes_compressed_is_refused(small: LocalHub, tmp_path: Path) -> None:
    """A few compressed bytes can become gigabytes; the client requests no compression."""
    small.trouble.compressed.add("config.json")
    with pytest.raises(HubUnreachableError, match=r"compressed \(gzip\)") as failure:
        read(small, tmp_path)
    assert_one_sentence(failure.value, small)


def test_a_large_file_is_read_whole(
    small: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pods.checkpoint_stager.download_limits.ANSWER_LIMIT_BYTES", 2000)
    data = b" " * 5000
    small.repos[MODEL] = Repo(commits={COMMIT: {"config.json": data}}, refs={"main": COMMIT})
    read(small, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == data


def test_a_hub_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.05)
    monkeypatch.setattr("pods.checkpoint_stager.hub.sleep", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        client = Hub(HfApi(endpoint=f"http://{host}:{port}", token=False), MODEL)
        with pytest.raises(HubUnreachableError, match="did not answer"):
            client.describe("main")


@st.composite
def altered(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an answer in which one or two values are replaced."""
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
