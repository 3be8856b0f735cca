"""What refusals and failures of the Hugging Face hub become: its own client against real HTTP."""

import errno
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import DraftworthError, UserInputError
from pods.checkpoint_stager.hub import HubUnreachableError
from tests.pods.checkpoint_stager.conftest import COMMIT, MODEL, REVISION, Bench, model_files
from tests.support.local_hub import LocalHub

pytestmark = pytest.mark.emulator
TOKEN = "hf_very_secret"
WEIGHTS = "model-00002-of-00002.safetensors"


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that `Hub` waited between tries; neither it nor the hub's client really waits."""
    waits: list[float] = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    monkeypatch.setattr("pods.checkpoint_stager.hub.sleep", waits.append)
    return waits


def read(bench: Bench, token: str | None = None, *, path: str = WEIGHTS) -> None:
    """Describe the model, and download a file."""
    hub = bench.hub_client(token)
    checkpoint = hub.describe(REVISION)
    hub.download(path, checkpoint.commit, bench.scratch, size_bytes=2**20)


def gate(hub: LocalHub, *, members: str | None = None) -> None:
    hub.repos[MODEL].gated = True
    hub.tokens[TOKEN] = {MODEL} if members else set()


def test_a_model_has_its_commit_and_hashes(bench: Bench) -> None:
    checkpoint = bench.hub_client().describe(REVISION)
    assert checkpoint.commit == COMMIT
    by_path = {file.path: file for file in checkpoint.files}
    assert set(by_path) == set(model_files())
    assert by_path[WEIGHTS].content_id.startswith("sha256:")
    assert by_path["config.json"].content_id.startswith("git:")


def test_the_token_is_never_sent_to_storage(bench: Bench) -> None:
    gate(bench.hub, members=TOKEN)
    read(bench, TOKEN)
    assert (bench.scratch / WEIGHTS).read_bytes() == model_files()[WEIGHTS]
    seen = {(request.server, request.authorization) for request in bench.hub.requests}
    assert seen == {("hub", f"Bearer {TOKEN}"), ("storage", None)}


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "a gated model, and no token was given.*aws.hub_token_secret"),
        (TOKEN, "a gated model, and the account of the token of secret hub-token may not read it"),
    ],
)
def test_a_gated_model_says_what_opens_it(bench: Bench, token: str | None, message: str) -> None:
    gate(bench.hub)
    with pytest.raises(UserInputError, match=message) as refused:
        read(bench, token)
    assert f"accept its conditions at {bench.hub.url}/{MODEL}" in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_an_unknown_token_is_reported_by_secret_name(bench: Bench) -> None:
    with pytest.raises(UserInputError, match="refuses the token of secret hub-token") as refused:
        read(bench, "hf_expired")
    assert "hf_expired" not in str(refused.value)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "no such model, or it is private; next: correct `model`"),
        (TOKEN, "no such model, or the account of the token of secret hub-token may not see it"),
    ],
)
@pytest.mark.parametrize("private", [True, False], ids=["private", "missing"])
def test_private_and_missing_models_read_the_same(
    bench: Bench, private: bool, token: str | None, message: str
) -> None:
    bench.hub.tokens[TOKEN] = set()
    bench.hub.repos[MODEL].private = private
    if not private:
        del bench.hub.repos[MODEL]
    with pytest.raises(UserInputError, match=message):
        read(bench, token)


def test_a_missing_revision_is_reported(bench: Bench) -> None:
    with pytest.raises(UserInputError, match=f"{MODEL} at v9: .* no such revision"):
        bench.hub_client().describe("v9")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_answer_that_may_pass_is_waited_for(
    bench: Bench, slept: list[float], status: int
) -> None:
    bench.hub.trouble.statuses = [status, status]
    read(bench)
    assert slept == [2, 10]


def test_a_hub_that_is_down_may_be_retried(bench: Bench, slept: list[float]) -> None:
    bench.hub.trouble.statuses = [503] * 99
    with pytest.raises(HubUnreachableError, match="4 times: trouble 503") as failed:
        read(bench)
    assert failed.value.exit_code == 1
    assert slept == [2, 10, 30]


def test_an_unreachable_hub_is_reported(bench: Bench) -> None:
    bench.hub.url = "http://127.0.0.1:9"
    with pytest.raises(HubUnreachableError, match="Connection refused"):
        read(bench)


def test_an_expired_storage_address_is_requested_again(bench: Bench) -> None:
    """The storage knows no accounts, so its status 403 does not mean that the token is refused."""
    bench.hub.trouble.storage_statuses = [403]
    read(bench)
    assert (bench.scratch / WEIGHTS).read_bytes() == model_files()[WEIGHTS]


def test_a_closed_storage_is_reported_without_the_signature(bench: Bench) -> None:
    bench.hub.trouble.storage_statuses = [403] * 99
    with pytest.raises(HubUnreachableError, match=r"Request has expired|403") as failed:
        read(bench)
    assert "Signature" not in str(failed.value)


def test_a_full_disk_is_not_the_hubs_fault(
    bench: Bench, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    with pytest.raises(DraftworthError, match=r"scratch space: .*No space left"):
        read(bench)
    assert slept == []


def test_an_id_that_is_none_is_refused(bench: Bench, tmp_path: Path) -> None:
    hub = bench.hub_client()
    hub.model = "acme/ti ny"
    with pytest.raises(UserInputError, match="acme/ti ny at main: "):
        hub.describe(REVISION)
