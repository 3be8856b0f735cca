"""A winner that goes on serving: its Service, who may reach it, and what the measuring Job may."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from charts.winner_service import CLIENT_LABEL
from draftworth.experiment.afterwards import ServeOnDevices
from draftworth.planning.resolved import ResolvedNeuron
from pods.llmperf.kubernetes_servers import NO_SERVER
from tests.charts.rendering import Object, charts_of, render
from tests.support.experiments import changed, resolved, with_rounds

pytestmark = pytest.mark.synth

LIMITS_FILE = "/etc/draftworth-deadline/serving-limits.json"


def serving(**values: Any) -> ResolvedNeuron:
    """One repetition: without a winner that stays nobody would start or stop a server."""
    after = ServeOnDevices(**{"kind": "serve", "budget_usd": 40.0, **values})
    return changed(with_rounds(), after=after)


def one(charts: dict[str, list[Object]], kind: str, name: str) -> Object:
    (found,) = (
        item
        for objects in charts.values()
        for item in objects
        if (item["kind"], item["metadata"]["name"]) == (kind, name)
    )
    return found


def named(charts: Any, kind: str) -> set[str]:
    objects = (item for found in charts.values() for item in found)
    return {item["metadata"]["name"] for item in objects if item["kind"] == kind}


@pytest.fixture(scope="module")
def charts() -> dict[str, list[Object]]:
    return render(serving())


def job(charts: dict[str, list[Object]]) -> Object:
    (found,) = (o for o in charts["load-generator"] if o["kind"] == "Job")
    return found


def test_its_service_selects_nothing_until_there_is_a_winner(
    charts: dict[str, list[Object]],
) -> None:
    spec = one(charts, "Service", "winner")["spec"]
    assert spec["type"] == "ClusterIP"
    assert "selector" not in spec
    assert NO_SERVER not in named(charts, "Deployment")
    assert [port["port"] for port in spec["ports"]] == [8000]
    assert "winner" not in named(charts_of(), "Service")


def test_the_job_may_scale_the_servers_and_lead_clients_to_one(
    charts: dict[str, list[Object]],
) -> None:
    rules = one(charts, "Role", "scale-servers")["rules"]
    assert [
        (rule["apiGroups"], rule["resources"], rule["resourceNames"], rule["verbs"])
        for rule in rules
    ] == [
        (["apps"], ["deployments/scale"], ["vllm-baseline", "vllm-qwen3-1-7b-k7"], ["patch"]),
        ([""], ["services"], ["winner"], ["patch"]),
    ]
    pod = job(charts)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    twice = render(changed(with_rounds(), repetitions=2))
    assert len(one(twice, "Role", "scale-servers")["rules"]) == 1
    assert "scale-servers" not in named(render(with_rounds()), "Role")


def test_pods_that_say_that_they_are_clients_reach_the_servers_from_any_namespace(
    charts: dict[str, list[Object]],
) -> None:
    (rule,) = one(charts, "NetworkPolicy", "serving")["spec"]["ingress"]
    assert rule["from"][1] == {
        "namespaceSelector": {},
        "podSelector": {"matchLabels": dict(CLIENT_LABEL)},
    }
    assert [port["port"] for port in rule["ports"]] == [8000]
    (plain,) = one(dict(charts_of()), "NetworkPolicy", "serving")["spec"]["ingress"]
    assert len(plain["from"]) == 1


def test_the_job_reaches_the_kubernetes_api(charts: dict[str, list[Object]]) -> None:
    rules = one(charts, "NetworkPolicy", "load-generator")["spec"]["egress"]
    assert any({"ipBlock": {"cidr": "10.0.0.0/8"}} in rule["to"] for rule in rules)


def test_its_limits_are_a_file_that_may_be_changed_and_no_part_of_the_job() -> None:
    until = "2026-12-01T08:00:00+00:00"
    short = render(serving())
    long = render(serving(budget_usd=80.0, probe_seconds=30.0, serve_until=_time(until)))
    files = [one(c, "ConfigMap", "llmperf-deadline")["data"] for c in (short, long)]
    read = [json.loads(data["serving-limits.json"]) for data in files]
    assert [limits["budget_usd"] for limits in read] == [40.0, 80.0]
    assert [limits["serve_until_unix_s"] for limits in read] == [None, 1796112000.0]
    usd = with_rounds().node_price.usd_per_hour
    assert read[0]["usd_per_hour"] == {"baseline": usd, "qwen3-1.7b-k7": usd}
    assert job(short)["metadata"]["name"] == job(long)["metadata"]["name"]
    arguments = job(short)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--serving-limits-file") + 1] == LIMITS_FILE


def test_without_a_winner_that_stays_there_are_no_limits_of_it() -> None:
    plain = dict(charts_of())
    assert [*one(plain, "ConfigMap", "llmperf-deadline")["data"]] == ["deadline-minutes"]
    arguments = job(plain)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--serving-limits-file" not in arguments


def test_in_every_slot_its_servers_cost_the_nodes_that_they_are_on() -> None:
    everywhere = changed(serving(replicas="every_slot"), repetitions=2)
    one_node = json.loads(
        one(render(everywhere), "ConfigMap", "llmperf-deadline")["data"]["serving-limits.json"]
    )
    assert one_node["usd_per_hour"]["baseline"] == resolved().node_price.usd_per_hour


def _time(text: str) -> datetime:

    return datetime.fromisoformat(text)
