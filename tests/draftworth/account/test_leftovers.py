"""What is left of an experiment is found, told from others' things, and priced."""

import functools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account import leftovers
from draftworth.account.leftovers import Report, look, other_lines, report_lines
from draftworth.account.resource_kinds import (
    AMEND,
    FILTERS,
    LAMBDA_KEEPS,
    OURS,
    Kind,
    Leftover,
    kinds,
    monthly_usd,
    oldest_price,
)
from draftworth.account.resources import find, parse_arn
from draftworth.account.scope import Scope, of_stack
from draftworth.cli import main
from draftworth.planning.resolved import ResolvedNeuron
from tests.draftworth.account import emulated_resources
from tests.draftworth.account.stubs import (
    NOW,
    QWEN,
    RESERVATIONS,
    Answer,
    EmulatedClient,
    RefusingClient,
    StubbedClients,
    experiment,
    refusing,
    without_credentials,
)

pytestmark = [pytest.mark.emulator]


@pytest.fixture(autouse=True)
def account() -> Iterator[None]:
    with mock_aws():
        yield


@functools.cache
def clients(service: str, region: str, /) -> Any:
    """The emulator's."""
    return EmulatedClient(service, region)


def scope(given: ResolvedNeuron | None = None, /, use: Any = clients) -> Scope:
    return Scope(experiment=given or experiment(), clients=use, now=NOW)


def kind(name: str) -> Kind:
    (row,) = [row for row in kinds() if row.kind == name]
    return row


def found(given: ResolvedNeuron | None = None, /) -> list[Leftover]:
    report = look(scope(given), kinds())
    assert report.unseen == ()
    return list(report.leftovers)


def test_an_empty_account_is_clean() -> None:
    report = look(scope(), kinds())
    assert report.clean
    assert report.leftovers == ()


def test_every_kind_of_thing_is_found_with_what_removes_it() -> None:
    for make in (*emulated_resources.EVERY_KIND.values(), emulated_resources.log_groups):
        make()
    report = look(scope(), kinds())
    assert report.unseen == ()
    assert set(emulated_resources.EVERY_KIND) - {r.kind for r in report.unplanned} == set()
    groups = {r.id for r in report.unplanned if r.kind == "log group"}
    assert set(emulated_resources.LOG_GROUPS) - groups == set()
    ids = [(r.kind, r.id) for r in report.leftovers]
    assert len(ids) == len(set(ids)), "two ways lead to some, by kind and by the index of tags"
    assert not [kind for kind, _ in ids if kind in ("s3", "sns", "ec2:natgateway")]
    removals = [r.remove for r in report.unplanned]
    assert [r for r in removals if not r.startswith(("aws ", "make destroy"))] == []


def test_uploaded_files_are_counted_with_every_version_and_priced() -> None:
    emulated_resources.upload_folder()
    (folder,) = found()
    assert folder.id == f"s3://{emulated_resources.ASSETS}/draftworth-qwen3-32b/"
    assert folder.name == "prompts and functions: 3 files, 5 versions"
    assert folder.usd_per_month == pytest.approx(
        4 * 1024 / 2**30 * (monthly_usd("bucket_gib") or 0)
    )
    assert folder.created is not None
    s3 = boto3.client("s3", region_name=emulated_resources.REGION)
    for key in ("prompts.json", "function.zip"):
        s3.delete_object(Bucket=emulated_resources.ASSETS, Key=f"draftworth-qwen3-32b/{key}")
    assert [r.kind for r in found()] == ["upload folder"], "old versions are left"


def test_uploads_of_others_and_buckets_of_similar_names_are_not_ours() -> None:
    s3 = boto3.client("s3", region_name=emulated_resources.REGION)
    emulated_resources.asset_bucket()
    for key in ("draftworth-qwen3-32b-x/a.json", "draftworth-qwen3-32b", "a.zip"):
        s3.put_object(Bucket=emulated_resources.ASSETS, Key=key, Body=b"x")
    for name in ("cdk-mine", "cdk-hnb659fds-assets-123456789012-us-east-1"):
        emulated_resources.asset_bucket(name)
        s3.put_object(Bucket=name, Key="draftworth-qwen3-32b/a.json", Body=b"x")
    assert found() == []


def test_schedules_are_ours_by_their_group_and_by_their_name_in_the_default_group() -> None:
    emulated_resources.schedule_group()
    for group in (emulated_resources.STACK, "default"):
        emulated_resources.schedule(f"{emulated_resources.STACK}-benchmarkDeadline1-X", group)
        emulated_resources.schedule("another", group)
    schedules = [r for r in found() if r.kind == "schedule"]
    assert sorted(r.remove.partition("--group-name ")[2] for r in schedules) == [
        f"default --name {emulated_resources.STACK}-benchmarkDeadline1-X",
        f"{emulated_resources.STACK} --name another",
        f"{emulated_resources.STACK} --name {emulated_resources.STACK}-benchmarkDeadline1-X",
    ]


def test_things_of_another_experiment_with_a_similar_name_are_not_ours() -> None:
    emulated_resources.bucket(
        "draftworth-qwen3-32b-x-storageartifacts1-x", emulated_resources.OTHERS_TAGS
    )
    emulated_resources.bucket(
        "draftworth-qwen3-32b-storageartifacts2-x", emulated_resources.OTHERS_TAGS
    )
    emulated_resources.role("draftworth-qwen3-32b-x-c-NodeRole1-X", emulated_resources.OTHERS_TAGS)
    emulated_resources.stack("draftworth-qwen3-32b-x", emulated_resources.OTHERS_TAGS)
    emulated_resources.bucket("somebody-elses", {})
    assert found() == []


def test_another_experiment_that_is_still_deployed_is_named() -> None:
    """After `make destroy` of the file that was not deployed; it is no leftover of this one."""
    emulated_resources.stack("draftworth-qwen3-32b-x", emulated_resources.OTHERS_TAGS)
    emulated_resources.stack()
    emulated_resources.stack("somebody-elses", {})
    (line,) = other_lines(scope())
    assert "another experiment is deployed in us-east-2: qwen3-32b-x (CREATE_COMPLETE)" in line
    assert list(other_lines(scope(use=refusing))) == []


def test_a_thing_whose_tags_are_lost_is_known_by_its_stacks_name() -> None:
    emulated_resources.bucket("draftworth-qwen3-32b-storageartifacts1-x", {})
    assert [r.kind for r in found()] == ["bucket"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("draftworth-x", True),
        ("draftworth-x-networkFlowLogGroup1-X", True),
        ("draftworth-x-storagecheckpoints1-x", True),
        ("draftworth-x-CustomS3AutoDeleteObjects-X", True),
        ("draftworth-x-network", False),
        ("draftworth-x-network-storagebucket1-x", False),
        ("draftworth-x-networks-storagebucket1-x", False),
        ("draftworth-x-another-X", False),
        ("draftworth-xy-networkFlowLogGroup1-X", False),
    ],
)
def test_a_stacks_name_is_not_confused_with_a_longer_one(name: str, expected: bool) -> None:
    assert of_stack("draftworth-x", name) is expected


@pytest.mark.parametrize("holds", ["checkpoints", "results"])
@pytest.mark.parametrize(("keep", "kept"), [(True, 1), (False, 0)])
def test_a_bucket_stays_on_purpose_only_where_the_experiment_says_so(
    holds: str, keep: bool, kept: int
) -> None:
    emulated_resources.holding(holds, key="runs/a/run.json")
    stays = {"checkpoints": not keep, "results": not keep} | {holds: keep}
    given = experiment(keep_checkpoints=stays["checkpoints"], keep_results=stays["results"])
    report = look(scope(given), kinds())
    assert len(report.planned) == kept
    assert report.clean is keep


def test_results_of_several_deploys_stay_each_with_the_command_that_lists_its_runs() -> None:
    names = [emulated_resources.holding("results", key="runs/a/run.json", number=n) for n in (1, 2)]
    artifacts = emulated_resources.holding("artifacts")
    unlabelled = f"{emulated_resources.STACK}-storageresults3-x"
    emulated_resources.bucket(unlabelled, key="runs/a/run.json")
    report = look(scope(), kinds())
    assert {r.id for r in report.unplanned} == {artifacts, unlabelled}
    assert [(r.id, r.kept) for r in report.planned] == [
        (name, f"aws.keep_results is true; its runs: python -m draftworth report s3://{name}")
        for name in names
    ]


@pytest.mark.parametrize(
    ("usd", "text"), [(0.0, "0.00"), (0.004, "below 0.01"), (0.01, "0.01"), (None, "?")]
)
def test_a_price_below_a_cent_is_not_nothing(usd: float | None, text: str) -> None:
    kept = Leftover(kind="bucket", id="b", remove="aws y", usd_per_month=usd, kept="results")
    lines = list(report_lines(Report(leftovers=(kept,), unseen=()), NOW))
    (row,) = (line for line in lines if line.startswith("  bucket"))
    assert row.split("?", 1)[1].removesuffix("b").strip() == text


def test_a_results_bucket_without_a_run_is_said_to_be_of_no_use() -> None:
    emulated_resources.holding("results", key="control/capacity.json")
    report = look(scope(), kinds())
    assert report.clean
    (bucket,) = report.planned
    assert "holds no run: of no use once its stack is gone" in bucket.kept
    assert bucket.remove.endswith(f"rb --force s3://{bucket.id}")


@pytest.mark.parametrize(
    ("storage_class", "usd"), [("STANDARD", "bucket_gib"), ("STANDARD_IA", "bucket_infrequent_gib")]
)
def test_results_cost_what_their_storage_class_does(storage_class: str, usd: str) -> None:
    emulated_resources.holding("results", key="runs/a/run.json", StorageClass=storage_class)
    (bucket,) = found()
    assert bucket.name == "1,024 bytes"
    assert bucket.usd_per_month == pytest.approx(1024 / 2**30 * (monthly_usd(usd) or 0))


def reserved(**changes: Any) -> Scope:
    block = {
        "CapacityReservationId": "cr-0123456789abcdef0",
        "ReservationType": "capacity-block",
        "State": "active",
        "InstanceType": "trn2.48xlarge",
        "TotalInstanceCount": 2,
        "EndDate": NOW + timedelta(hours=3),
    }
    answer = Answer(method=RESERVATIONS, response={"CapacityReservations": [block | changes]})
    return scope(experiment("llama-3.1-8b-eagle3"), use=StubbedClients({"ec2": [answer]}))


def test_a_bought_capacity_block_stays_on_purpose_and_is_paid() -> None:
    (block,) = find(kind("capacity reservation"), reserved())
    assert "bought and paid in advance, ends 2026-11-21 15:00 UTC" in block.kept
    assert block.usd_per_month == 0


@pytest.mark.parametrize(
    "changes", [{"State": "expired"}, {"CapacityReservationId": "cr-0123456789abcdef1"}]
)
def test_an_expired_or_foreign_block_is_not_listed(changes: dict[str, Any]) -> None:
    assert list(find(kind("capacity reservation"), reserved(**changes))) == []


def test_an_on_demand_reservation_with_our_tag_costs_what_its_instances_would() -> None:
    tags = [{"Key": "draftworth:experiment", "Value": "llama-3.1-8b-eagle3"}]
    given = reserved(ReservationType="default", Tags=tags)
    (one,) = find(kind("capacity reservation"), given)
    block_price = experiment("llama-3.1-8b-eagle3").node_price.usd_per_hour
    assert not one.kept
    assert one.usd_per_month == pytest.approx(2 * block_price * 730)


def test_what_costs_by_the_hour_is_told_by_the_month() -> None:
    emulated_resources.nat_gateway()
    emulated_resources.instance()
    emulated_resources.volume()
    usd = {r.kind: r.usd_per_month for r in found()}
    assert usd["instance trn2.48xlarge"] == pytest.approx(
        experiment().node_price.usd_per_hour * 730
    )
    unpriced = {r.kind: r.usd_per_month for r in found(experiment(price=None))}
    assert unpriced["instance trn2.48xlarge"] is None
    assert usd["NAT gateway"] == pytest.approx(0.045 * 730)
    assert usd["volume"] == pytest.approx(100 * 0.08)


def test_standing_prices_have_the_names_that_are_asked_for() -> None:
    assert monthly_usd("EKS control plane")
    assert monthly_usd("NAT gateway")
    assert monthly_usd("m7i.xlarge")
    assert monthly_usd("u-12tb1.112xlarge") is None
    assert monthly_usd("public_ipv4") == pytest.approx(3.65)
    assert oldest_price().year >= 2024


def test_interfaces_that_lambda_holds_are_waited_for() -> None:
    # By tag first, then the network, of which there is none.
    answers = [
        Answer(
            method="describe_network_interfaces",
            response={
                "NetworkInterfaces": [
                    {
                        "NetworkInterfaceId": "eni-1",
                        "Status": "in-use",
                        "Description": "AWS Lambda VPC ENI-draftworth",
                    },
                    {"NetworkInterfaceId": "eni-2", "Status": "available"},
                ]
            },
        ),
        Answer(method="describe_vpcs", response={"Vpcs": []}),
    ]
    held, free = find(kind("interface"), scope(use=StubbedClients({"ec2": answers})))
    assert held.remove == LAMBDA_KEEPS
    assert free.remove.endswith("--network-interface-id eni-2")


@pytest.mark.parametrize(("state", "count"), [("available", 1), ("deleted", 0)])
def test_a_placement_group_is_found_until_it_is_deleted(state: str, count: int) -> None:
    group = {"GroupName": "made-up", "State": state}
    answer = Answer(method="describe_placement_groups", response={"PlacementGroups": [group]})
    use = StubbedClients({"ec2": [answer]})
    assert len(list(find(kind("placement group"), scope(use=use)))) == count


def test_an_instance_that_ends_is_no_leftover() -> None:
    emulated_resources.instance()
    ec2 = boto3.client("ec2", region_name="us-east-2")
    (reservation,) = ec2.describe_instances()["Reservations"]
    ec2.terminate_instances(InstanceIds=[reservation["Instances"][0]["InstanceId"]])
    assert found() == []


@pytest.mark.parametrize("row", kinds(), ids=lambda row: row.looks_at)
def test_a_refused_call_is_reported_and_the_account_is_not_called_clean(row: Kind) -> None:
    report = look(scope(use=refusing), [row])
    assert not report.clean
    assert [what for what, _ in report.unseen] == [row.looks_at, "the index of tags"]
    assert "AccessDenied" in report.unseen[0][1]
    assert "next: allow" in report.unseen[0][1]


def test_what_a_refused_listing_would_have_found_comes_from_the_index_of_tags() -> None:
    emulated_resources.topic()

    def refusing(service: str, region: str, /) -> Any:
        return RefusingClient() if service == "sns" else clients(service, region)

    report = look(scope(use=refusing), [kind("topic")])
    assert [(r.kind, r.id) for r in report.unplanned] == [
        ("sns", f"{emulated_resources.STACK}-benchmarkTopic1-X")
    ]


def test_the_table_names_functions_and_prices_that_exist_and_each_of_them() -> None:
    def named(key: str) -> set[str]:
        return {getattr(row, key) for row in kinds()} - {""}

    assert named("ours") == set(OURS)
    assert named("amend") == set(AMEND)
    assert {name for row in kinds() for name in row.filters} == set(FILTERS)
    assert [usd for usd in named("usd") if monthly_usd(usd) is None] == []


def test_no_two_rows_are_of_one_kind_or_arn_type() -> None:
    names = [row.kind for row in kinds()]
    covered = [row.covers for row in kinds() if row.covers]
    assert len(names) == len(set(names))
    assert len(covered) == len(set(covered))


@pytest.mark.parametrize(
    ("arn", "parts"),
    [
        ("arn:aws:ec2:us-east-2:111122223333:subnet/subnet-1", ("ec2:subnet", "subnet-1")),
        ("arn:aws:lambda:us-east-2:111122223333:function:f", ("lambda:function", "f")),
        ("arn:aws:logs:us-east-2:111122223333:log-group:/aws/x", ("logs:log-group", "/aws/x")),
        ("arn:aws:s3:::a-bucket", ("s3", "a-bucket")),
        ("arn:aws:sns:us-east-2:111122223333:t", ("sns", "t")),
    ],
)
def test_an_arn_is_read_as_kind_and_id(arn: str, parts: tuple[str, str]) -> None:
    assert parse_arn(arn) == parts


def test_the_report_has_what_should_go_what_stays_and_what_was_not_seen() -> None:
    gone = Leftover(
        kind="volume",
        id="vol-1",
        remove="aws x",
        created=NOW - timedelta(hours=3),
        usd_per_month=8.0,
    )
    kept = Leftover(kind="bucket", id="b", remove="aws y", usd_per_month=None, kept="bought")
    report = Report(leftovers=(gone, kept), unseen=(("roles", "AccessDenied"),))
    assert list(report_lines(report, NOW))[1:-1] == [
        "should be gone: 1",
        "  kind    age  USD a month  resource",
        "  volume  3 h         8.00  vol-1",
        "                            remove: aws x",
        "stays on purpose: 1",
        "  kind    age  USD a month  resource",
        "  bucket    ?            ?  b",
        "                            why: bought",
        "                            remove: aws y",
        "could not be looked at: 1",
        "  roles: AccessDenied",
        "",
    ]
    last = list(report_lines(report, NOW))[-1]
    assert last.startswith("about 8.00 USD a month, without 1 of unknown cost")


@pytest.mark.parametrize(("make", "code"), [(lambda: None, 0), (emulated_resources.volume, 1)])
def test_the_command_ends_in_1_only_when_something_unplanned_remains(
    make: Callable[[], None],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make()
    monkeypatch.setattr(leftovers, "client", clients)
    assert main(["leftovers", QWEN]) == code
    out = capsys.readouterr().out
    assert "qwen3-32b in account 123456789012, us-east-2" in out
    assert ("should be gone: nothing" in out) is (code == 0)


def test_without_credentials_the_command_says_so_and_is_not_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_credentials(monkeypatch)
    assert main(["leftovers", QWEN]) == 1
    assert "aws sso login" in capsys.readouterr().err
