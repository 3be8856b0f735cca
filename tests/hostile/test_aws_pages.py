"""Answers to AWS calls that are not AWS's: a proxy's page, a network's log-in page, anything."""

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from draftworth import cli
from draftworth.account import clients
from draftworth.account.proxy_pages import NoAnswerError
from draftworth.planning.prices import CONTEXT_FILE
from tests.conftest import ROOT
from tests.support.experiments import both, drop, put, write_experiment

HTML = "text/html; charset=utf-8"
PAGE = b"<!DOCTYPE html>\n<html><body>Log in to the <b>network</b><br></body></html>"


@dataclass(frozen=True)
class Page:
    """The answer to every request."""

    status: int
    content_type: str
    body: bytes
    location: str = ""


PAGES = {
    "a page": Page(200, HTML, PAGE),
    "a page that is XML": Page(200, HTML, b"<html><body>Log in</body></html>"),
    "a page that is declared as XML": Page(
        200, "text/xml", b'<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"/>'
    ),
    "a page without a type": Page(200, "", PAGE),
    "text": Page(200, "text/plain", b"welcome"),
    "a list": Page(200, "application/json", b"[1]"),
    "depth": Page(200, "application/json", b"[" * 100_000),
    "bytes": Page(200, "application/octet-stream", bytes(range(256))),
    "XML that is cut off": Page(200, "text/xml", b"<Response><Welc"),
    "nothing": Page(200, "text/plain", b""),
    "a redirect": Page(302, HTML, PAGE, location="/login"),
    "a refusal": Page(403, HTML, b"<!DOCTYPE html>\n<html>Blocked<br></html>"),
    "no such page": Page(404, HTML, PAGE),
    "a failure": Page(503, HTML, b"<!DOCTYPE html>\n<html>Down<br></html>"),
    "a failure that is XML": Page(503, HTML, b"<html><body>Down</body></html>"),
    "a failure in words": Page(502, "text/plain", b"Bad gateway"),
}


@dataclass
class Network:
    """A network whose every answer is `page`."""

    url: str
    page: Page = PAGES["a page"]
    requests: list[str] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    network: Network

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        page = self.network.page
        self.network.requests.append(self.path)
        self.send_response(page.status)
        headers = {"Content-Type": page.content_type, "Location": page.location}
        for name, value in {**headers, "Content-Length": str(len(page.body))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = answer  # noqa: N815


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    network = Network(url="")
    handler = type("Handler", (_Handler,), {"network": network})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    network.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", network.url)
    set_tries(monkeypatch, 1)
    yield network
    server.shutdown()
    thread.join()
    server.server_close()


def set_tries(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    retries = {"mode": "standard", "total_max_attempts": number}
    monkeypatch.setattr(clients, "CONFIG", clients.CONFIG.merge(Config(retries=retries)))  # type: ignore[arg-type]


EXPERIMENT = str(ROOT / "experiments/qwen3-32b.yaml")
COMMANDS = {
    "stop": ("stop", EXPERIMENT),
    "logs": ("logs", EXPERIMENT),
    "report of a run": ("report", "s3://results/runs/j-89abcdef"),
    "artifacts": ("artifacts", EXPERIMENT),
    "leftovers": ("leftovers", EXPERIMENT),
    "delete-assets": ("delete-assets", EXPERIMENT),
    "report of a list": ("report", "s3://results"),
    "runs of an experiment": ("report", EXPERIMENT),
}
Errors = Callable[..., tuple[int, str]]


@pytest.fixture
def errors(capsys: pytest.CaptureFixture[str]) -> Errors:
    """Run a command; return its exit code and what it writes to standard error."""

    def run(*arguments: str) -> tuple[int, str]:
        return cli.main(arguments), capsys.readouterr().err

    return run


# The first calls of these commands cover all forms of AWS's answers: XML, JSON, and S3's XML.
EVERY_PAGE = itertools.product(("stop", "logs", "report of a run"), PAGES)


@pytest.mark.parametrize(
    ("command", "page"), [*EVERY_PAGE, *((c, "a page") for c in [*COMMANDS][3:])]
)
def test_a_page_as_an_answer_is_one_sentence(
    network: Network, errors: Errors, command: str, page: str
) -> None:
    network.page = PAGES[page]
    exit_code, text = errors(*COMMANDS[command])
    assert exit_code == 1
    assert_one_sentence(text, network)
    assert len(network.requests) == 1


def assert_one_sentence(text: str, network: Network) -> None:
    assert re.match(r"draftworth: could not [a-z ]+", text)
    assert f"{network.url} answered with " in text
    assert "which is no answer of the service; next: try again; if it stays, look at" in text
    assert text.count("\n") == 1
    assert text.rstrip().isprintable()


def test_preflight_names_it_in_the_first_check(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["preflight", EXPERIMENT]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert re.match(r"credentials +fail  could not ask who you are: ", first)
    assert f"{network.url} answered with text/html" in first


@pytest.mark.parametrize("kind", ["spot", "on_demand"])
def test_no_price_is_kept_from_a_page(
    network: Network, errors: Errors, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spot price comes as XML, the price list as JSON."""
    monkeypatch.chdir(tmp_path)
    unpriced = both(drop("aws", "price"), put("aws", "capacity", value={"kind": kind}))
    exit_code, text = errors("price", str(write_experiment(tmp_path, unpriced)))
    assert exit_code == 1
    assert_one_sentence(text, network)
    assert not CONTEXT_FILE.exists()


@pytest.mark.parametrize("content_type", [HTML, "application/xhtml+xml", "text/plain", ""])
@pytest.mark.parametrize("operation", ["get_object", "head_object"])
def test_a_page_does_not_count_as_an_object(
    network: Network, operation: str, content_type: str
) -> None:
    network.page = Page(200, content_type, PAGE)
    s3 = clients.client("s3")
    message = "could not read it: .* no answer of the service"
    with pytest.raises(clients.AwsError, match=message), clients.explained("read it"):
        getattr(s3, operation)(Bucket="results", Key="_READY.json")


@pytest.mark.parametrize("status", [403, 404])
def test_a_page_does_not_count_as_no_object(network: Network, status: int) -> None:
    network.page = Page(status, "text/plain", PAGE)
    s3 = clients.client("s3")
    with pytest.raises(NoAnswerError):
        s3.head_object(Bucket="results", Key="_READY.json")


PORTAL = b"<portal><login/></portal>"


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "body"),
    [
        ("s3", "list_objects_v2", {"Bucket": "results"}, PORTAL),
        ("s3", "list_object_versions", {"Bucket": "results"}, PORTAL),
        ("s3", "list_buckets", {}, b"<portal><Buckets/></portal>"),
        ("s3", "get_bucket_tagging", {"Bucket": "results"}, PORTAL),
        ("s3", "delete_objects", {"Bucket": "results", "Delete": {"Objects": []}}, PORTAL),
        ("ec2", "describe_instances", {}, b"<portal/>"),
        ("ec2", "describe_vpcs", {}, b"<DescribeInstancesResponse/>"),
        ("autoscaling", "describe_auto_scaling_groups", {}, b"<portal/>"),
        ("eks", "list_clusters", {}, b'{"login": "please"}'),
        ("resourcegroupstaggingapi", "get_resources", {}, b'{"login": "please"}'),
    ],
)
def test_a_readable_page_is_not_an_empty_list(
    network: Network, service: str, operation: str, arguments: dict[str, Any], body: bytes
) -> None:
    network.page = Page(200, "", body)
    client: Any = clients.client(service)
    with pytest.raises(NoAnswerError):
        getattr(client, operation)(**arguments)


def test_a_page_for_a_role_is_one_sentence(
    network: Network, errors: Errors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a role in the AWS profile, botocore makes the STS client itself."""
    config = tmp_path / "config"
    config.write_text(
        "[profile work]\nrole_arn = arn:aws:iam::111122223333:role/work\n"
        "credential_source = Environment\nregion = us-east-2\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    exit_code, text = errors("stop", EXPERIMENT)
    assert exit_code == 1
    assert re.match(r"draftworth: could not look up .*; next: try again; if it stays", text)
    assert text.count("\n") == 1


def test_a_page_with_a_failure_status_is_retried(
    network: Network, errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    set_tries(monkeypatch, 3)
    network.page = PAGES["a failure"]
    exit_code, text = errors("stop", EXPERIMENT)
    assert exit_code == 1
    assert "503: " in text
    assert_one_sentence(text, network)
    assert len(network.requests) == 3
