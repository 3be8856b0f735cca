"""Servers that are started and stopped through Kubernetes: a real HTTPS API, that may misbehave."""

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
    go_home,
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
OTHERS = ("slot1-vllm-baseline", "slot0-vllm-k7")
NAMES = (*HOMES, *OTHERS)


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[StandInKubernetes]:
    """As a deploy leaves it."""
    made = StandInKubernetes(replicas={**dict.fromkeys(HOMES, 1), **dict.fromkeys(OTHERS, 0)})
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


def test_only_the_named_servers_run_and_the_others_are_stopped_first(
    kubernetes: StandInKubernetes,
) -> None:
    for _ in range(2):  # the second call changes nothing
        run_only(kubernetes, OTHERS)
        assert running(kubernetes) == set(OTHERS)
        assert kubernetes.asked == [*((n, 0) for n in HOMES), *((n, 1) for n in OTHERS)]
        kubernetes.asked.clear()


def test_a_restart_stops_a_server_that_is_wanted_and_waits_until_it_has_no_pod(
    kubernetes: StandInKubernetes,
) -> None:
    kubernetes.slow = 3
    run_only(kubernetes, HOMES, restart=True)
    assert running(kubernetes) == set(HOMES)
    for name in HOMES:
        assert [replicas for n, replicas in kubernetes.asked if n == name] == [0, 0, 0, 0, 1]


def test_a_server_that_keeps_its_pod_is_named(kubernetes: StandInKubernetes) -> None:
    kubernetes.slow = 10**9
    with pytest.raises(ServersError, match=r"vllm-baseline, vllm-k7: still with pods 0.05 s after"):
        run_only(kubernetes, OTHERS, stopped_within_seconds=0.05)
    assert not running(kubernetes)


def test_what_passes_is_asked_again(kubernetes: StandInKubernetes) -> None:
    troubles: list[Trouble] = [(409, status_of("modified")), (429, b""), (500, b"<html>")]
    passing = iter([*troubles, (503, b""), DROPPED])
    kubernetes.trouble = lambda number: next(passing, None) if number % 3 else None
    run_only(kubernetes, OTHERS)
    assert next(passing, "all came") == "all came"
    assert running(kubernetes) == set(OTHERS)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ((500, status_of("etcd is away")), f"HTTP 500: etcd is away, after {TRIES} tries; next:"),
        ((409, b"[]"), rf"HTTP 409: \[\], after {TRIES} tries"),
        (DROPPED, f"no answer of Kubernetes after {TRIES} tries: .*network policy"),
    ],
)
def test_what_does_not_pass_ends_it_after_so_many_tries(
    kubernetes: StandInKubernetes, trouble: Trouble, words: str
) -> None:
    kubernetes.trouble = lambda _: trouble
    with pytest.raises(ServersError, match=words):
        run_only(kubernetes, OTHERS)
    assert kubernetes.asked == [(HOMES[0], 0)] * TRIES


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
def test_a_refusal_is_not_asked_again_and_says_what_to_do(
    kubernetes: StandInKubernetes, trouble: Trouble, words: str
) -> None:
    kubernetes.trouble = lambda _: trouble
    with pytest.raises(ServersError, match=words) as raised:
        run_only(kubernetes, OTHERS)
    assert len(kubernetes.asked) == 1
    path = "/apis/apps/v1/namespaces/draftworth/deployments/vllm-baseline/scale"
    assert f"PATCH {kubernetes.url}{path} to 0 replicas: " in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_a_deployment_that_is_missing_is_said(kubernetes: StandInKubernetes) -> None:
    del kubernetes.replicas[HOMES[1]]
    with pytest.raises(ServersError, match=r'HTTP 404: .*"vllm-k7" not found; next: kubectl get'):
        run_only(kubernetes, OTHERS)


def test_the_token_is_read_again_at_each_request(kubernetes: StandInKubernetes) -> None:
    given = servers(kubernetes)
    asyncio.run(given.run_only(endpoints(OTHERS), restart=False))
    (kubernetes.folder / "token").write_text("a-token-that-has-expired")
    with pytest.raises(ServersError, match="HTTP 401"):
        asyncio.run(given.run_only(endpoints(HOMES), restart=False))


def test_a_server_with_another_certificate_gets_no_token(
    kubernetes: StandInKubernetes, tmp_path: Path
) -> None:
    folder = tmp_path / "another"
    folder.mkdir()
    with (
        stand_in_kubernetes(folder, StandInKubernetes(replicas={})) as another,
        pytest.raises(ServersError, match="certificate verify failed"),
    ):
        run_only(replace(another, folder=kubernetes.folder), OTHERS)
    assert not another.asked


def test_nobody_who_listens_is_said() -> None:
    with pytest.raises(ServersError, match="cannot be read"):
        KubernetesApi(url="https://127.0.0.1:9", folder=Path("/nowhere")).scale("vllm-k7", 1)


def test_a_run_that_is_cancelled_leaves_the_servers_started(kubernetes: StandInKubernetes) -> None:
    """Without any server there would be no place for the next pod of the Job."""
    kubernetes.slow = 20

    async def cancelled() -> None:
        work = servers(kubernetes).run_only(endpoints(OTHERS), restart=True)
        running = asyncio.ensure_future(work)
        await asyncio.to_thread(eventually, lambda: kubernetes.asked)
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert running(kubernetes) == set(OTHERS)


def test_after_a_run_the_servers_of_a_deploy_run_again_or_a_line_says_why_not(
    kubernetes: StandInKubernetes,
) -> None:
    log: list[str] = []
    run_only(kubernetes, OTHERS)
    given = replace(changing_spec(), endpoints=tuple(endpoints(HOMES)))
    asyncio.run(go_home(servers(kubernetes), given, log.append))
    assert (running(kubernetes), log) == (set(HOMES), [])

    kubernetes.trouble = lambda _: (403, status_of("cannot patch"))
    asyncio.run(go_home(servers(kubernetes), given, log.append))
    (line,) = log
    assert "servers are left as they are: PATCH" in line


def test_after_a_search_the_baseline_and_the_first_candidate_run_and_no_other(
    kubernetes: StandInKubernetes,
) -> None:
    """Whose turn is later has no slot, and would start on a node that is paid for anyway."""
    baseline, *others = endpoints(NAMES)
    second, first, third = (
        candidate(window, variant=e.variant, is_asked_for=window == 2)
        for window, e in zip((1, 2, 3), others, strict=True)
    )
    given = replace(
        changing_spec(),
        endpoints=(replace(baseline, is_baseline=True), *others),
        repetitions=1,
        search=search(second, first, third),
    )
    asyncio.run(go_home(servers(kubernetes), given, print))
    assert running(kubernetes) == {baseline.server, first.variant}


def changing_spec() -> Any:
    made = spec("http://x", cases=[case("a")])
    first, *others = made.endpoints
    named = (replace(e, server=f"vllm-{e.variant}") for e in (first, *others))
    return replace(made, endpoints=tuple(named), repetitions=2)


def test_servers_that_change_are_found_by_the_pods_own_variables(
    kubernetes: StandInKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pods.measuring.kubernetes_servers.POD_FOLDER", kubernetes.folder)
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    made = servers_of(changing_spec(), pod, print)
    assert isinstance(made, KubernetesServers)
    assert made.api.url == "https://[fd00::1]:443"
    assert "vllm-baseline" in made.names
    # Those that stay need none.
    assert isinstance(servers_of(spec("http://x", cases=[case("a")]), {}, print), FixedServers)


@pytest.mark.parametrize("pod", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}])
def test_servers_that_change_where_nobody_can_change_them_are_refused(pod: Any) -> None:
    with pytest.raises(ServersError, match=r"no KUBERNETES_SERVICE_HOST, or no token in .*next:"):
        servers_of(changing_spec(), pod, print)
