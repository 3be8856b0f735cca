"""Servers that are started and stopped through a real HTTPS API, which may fail."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring.run_specification import Endpoint
from draftworth.measuring.server_lifecycle import FixedServers, ServersError
from pods.measuring.kubernetes_servers import (
    TRIES,
    KubernetesApi,
    KubernetesServers,
    run_deployed_servers,
    servers_of,
)
from tests.draftworth.searching.candidates import candidate, search
from tests.pods.compiled_graphs.pods import eventually
from tests.pods.measuring.stand_in_kubernetes import (
    DROPPED,
    StandInKubernetes,
    Trouble,
    stand_in_kubernetes,
    status_of,
)
from tests.support.specifications import endpoint
from tests.support.stand_in_runs import case, spec

HOMES = ("vllm-baseline", "vllm-k7")
SWAPPED = ("slot1-vllm-baseline", "slot0-vllm-k7")
NAMES = (*HOMES, *SWAPPED)


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[StandInKubernetes]:
    """A stand-in for Kubernetes, with the Deployments as a deploy leaves them."""
    made = StandInKubernetes(replicas={**dict.fromkeys(HOMES, 1), **dict.fromkeys(SWAPPED, 0)})
    with stand_in_kubernetes(tmp_path, made):
        yield made


def servers(api: StandInKubernetes, **settings: Any) -> KubernetesServers:
    return KubernetesServers(
        api=KubernetesApi(url=api.url, folder=api.folder, pause_seconds=0.001),
        names=NAMES,
        log=lambda _: None,
        **{"stopped_poll_seconds": 0.001, **settings},
    )


def endpoints(names: Sequence[str]) -> list[Endpoint]:
    return [endpoint(name, 0, server=name) for name in names]


def run_only(
    api: StandInKubernetes, names: Sequence[str], *, restart: bool = False, **settings: Any
) -> None:
    asyncio.run(servers(api, **settings).run_only(endpoints(names), restart=restart))


def running(api: StandInKubernetes) -> set[str]:
    return {name for name, replicas in api.replicas.items() if replicas}


def test_only_named_servers_run_after_others_stop(
    kubernetes: StandInKubernetes,
) -> None:
    for _ in range(2):  # the second call changes nothing
        run_only(kubernetes, SWAPPED)
        assert running(kubernetes) == set(SWAPPED)
        assert kubernetes.requests == [*((n, 0) for n in HOMES), *((n, 1) for n in SWAPPED)]
        kubernetes.requests.clear()


def test_a_restart_waits_until_no_pod_is_left(
    kubernetes: StandInKubernetes,
) -> None:
    kubernetes.slow = 3
    run_only(kubernetes, HOMES, restart=True)
    assert running(kubernetes) == set(HOMES)
    for name in HOMES:
        assert [replicas for n, replicas in kubernetes.requests if n == name] == [0, 0, 0, 0, 1]


def test_a_server_that_keeps_its_pod_is_named(kubernetes: StandInKubernetes) -> None:
    kubernetes.slow = 10**9
    with pytest.raises(ServersError, match=r"vllm-baseline, vllm-k7: still with pods 0.05 s after"):
        run_only(kubernetes, SWAPPED, stopped_within_seconds=0.05)
    assert not running(kubernetes)


def test_passing_errors_are_retried(kubernetes: StandInKubernetes) -> None:
    troubles: list[Trouble] = [(409, status_of("modified")), (429, b""), (500, b"<html>")]
    passing = iter([*troubles, (503, b""), DROPPED])
    kubernetes.trouble = lambda number: next(passing, None) if number % 3 else None
    run_only(kubernetes, SWAPPED)
    assert next(passing, "all came") == "all came"
    assert running(kubernetes) == set(SWAPPED)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ((500, status_of("etcd is away")), f"HTTP 500: etcd is away, after {TRIES} tries; next:"),
        ((409, b"[]"), rf"HTTP 409: \[\], after {TRIES} tries"),
        (DROPPED, f"no answer of Kubernetes after {TRIES} tries: .*network policy"),
    ],
)
def test_lasting_errors_end_after_limited_tries(
    kubernetes: StandInKubernetes, trouble: Trouble, words: str
) -> None:
    kubernetes.trouble = lambda _: trouble
    with pytest.raises(ServersError, match=words):
        run_only(kubernetes, SWAPPED)
    assert kubernetes.requests == [(HOMES[0], 0)] * TRIES


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ((403, status_of("cannot patch")), "HTTP 403: cannot patch; allowed: .*role `scale-ser"),
        ((401, status_of("Unauthorized")), "HTTP 401: Unauthorized; allowed: for a service acc"),
        ((422, status_of("Invalid")), "HTTP 422: Invalid$"),
        ((302, b""), "HTTP 302: "),
        ((200, b"{}"), "the answer is no Scale"),
        ((200, b"[" * 100_000), "the answer is no Scale"),
        ((200, b'{"status": {"replicas": "many"}}'), "the answer is no Scale"),
        ((403, b"\x1b[31m\xff" * 10_000), "HTTP 403: [^\x1b]*; allowed"),
    ],
)
def test_a_refusal_is_final_and_has_a_remedy(
    kubernetes: StandInKubernetes, trouble: Trouble, words: str
) -> None:
    kubernetes.trouble = lambda _: trouble
    with pytest.raises(ServersError, match=words) as raised:
        run_only(kubernetes, SWAPPED)
    assert len(kubernetes.requests) == 1
    path = "/apis/apps/v1/namespaces/draftworth/deployments/vllm-baseline/scale"
    assert f"PATCH {kubernetes.url}{path} to 0 replicas: " in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_a_missing_deployment_is_reported(kubernetes: StandInKubernetes) -> None:
    del kubernetes.replicas[HOMES[1]]
    with pytest.raises(ServersError, match=r'HTTP 404: .*"vllm-k7" not found; next: kubectl get'):
        run_only(kubernetes, SWAPPED)


def test_the_token_is_read_again_at_each_request(kubernetes: StandInKubernetes) -> None:
    manager = servers(kubernetes)
    asyncio.run(manager.run_only(endpoints(SWAPPED), restart=False))
    (kubernetes.folder / "token").write_text("a-token-that-has-expired")
    with pytest.raises(ServersError, match="HTTP 401"):
        asyncio.run(manager.run_only(endpoints(HOMES), restart=False))


def test_a_server_with_another_certificate_gets_no_token(
    kubernetes: StandInKubernetes, tmp_path: Path
) -> None:
    folder = tmp_path / "another"
    folder.mkdir()
    with (
        stand_in_kubernetes(folder, StandInKubernetes(replicas={})) as another,
        pytest.raises(ServersError, match="certificate verify failed"),
    ):
        run_only(replace(another, folder=kubernetes.folder), SWAPPED)
    assert not another.requests


def test_an_unreachable_kubernetes_is_reported() -> None:
    with pytest.raises(ServersError, match="cannot be read"):
        KubernetesApi(url="https://127.0.0.1:9", folder=Path("/nowhere")).scale("vllm-k7", 1)


def test_a_cancelled_run_leaves_its_servers_started(kubernetes: StandInKubernetes) -> None:
    """The Job's next pod can be scheduled only where a server runs."""
    kubernetes.slow = 20

    async def cancelled() -> None:
        work = servers(kubernetes).run_only(endpoints(SWAPPED), restart=True)
        running = asyncio.ensure_future(work)
        await asyncio.to_thread(eventually, lambda: kubernetes.requests)
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert running(kubernetes) == set(SWAPPED)


def test_after_a_run_the_deployed_servers_run_again(
    kubernetes: StandInKubernetes,
) -> None:
    log: list[str] = []
    run_only(kubernetes, SWAPPED)
    run_spec = replace(changing_spec(), endpoints=tuple(endpoints(HOMES)))
    asyncio.run(run_deployed_servers(servers(kubernetes), run_spec, log.append))
    assert (running(kubernetes), log) == (set(HOMES), [])

    kubernetes.trouble = lambda _: (403, status_of("cannot patch"))
    asyncio.run(run_deployed_servers(servers(kubernetes), run_spec, log.append))
    (line,) = log
    assert "servers are left as they are: PATCH" in line


def test_after_a_search_baseline_and_first_candidate_run(
    kubernetes: StandInKubernetes,
) -> None:
    """A later candidate has no slot, and would start on a node that is paid for."""
    baseline, *candidates = endpoints(NAMES)
    second, first, third = (
        candidate(window, variant=e.variant, is_asked_for=window == 2)
        for window, e in zip((1, 2, 3), candidates, strict=True)
    )
    run_spec = replace(
        changing_spec(),
        endpoints=(replace(baseline, is_baseline=True), *candidates),
        repetitions=1,
        search=search(second, first, third),
    )
    asyncio.run(run_deployed_servers(servers(kubernetes), run_spec, print))
    assert running(kubernetes) == {baseline.server, first.variant}


def changing_spec() -> Any:
    made = spec("http://x", cases=[case("a")])
    first, *candidates = made.endpoints
    named = (replace(e, server=f"vllm-{e.variant}") for e in (first, *candidates))
    return replace(made, endpoints=tuple(named), repetitions=2)


def test_changing_servers_uses_the_pods_own_variables(
    kubernetes: StandInKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pods.measuring.kubernetes_servers.POD_FOLDER", kubernetes.folder)
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    made = servers_of(changing_spec(), pod, print)
    assert isinstance(made, KubernetesServers)
    assert made.api.url == "https://[fd00::1]:443"
    assert "vllm-baseline" in made.names
    # Servers that never change need no access to Kubernetes.
    assert isinstance(servers_of(spec("http://x", cases=[case("a")]), {}, print), FixedServers)


@pytest.mark.parametrize("pod", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}])
def test_servers_that_nobody_can_change_are_refused(pod: Any) -> None:
    with pytest.raises(ServersError, match=r"no KUBERNETES_SERVICE_HOST, or no token in .*next:"):
        servers_of(changing_spec(), pod, print)
