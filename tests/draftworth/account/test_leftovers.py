"""What is left of an experiment is found, told from others' things, and priced."""

import functools
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account import leftovers, resource_kinds
from draftworth.account.leftovers import Report, look, other_lines, report_lines
from draftworth.account.printing import duration_text, size_text
from draftworth.account.scope import Scope, of_stack
from draftworth.planning.resolved import ResolvedNeuron
from tests.draftworth.account import emulated_resources as made
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
from tests.draftworth.conftest import Ran

pytestmark = [pytest.mark.emulator]


@pytest.fixture(autouse=True)
def account() -> Iterator[None]:
    with mock_aws():
        yield


@functools.cache
def clients(service: str, region: str, /) -> Any:
    """The emulator's."""
    return EmulatedClient(service, region)


def scope(resolved: ResolvedNeuron | None = None, /, use: Any = clients) -> Scope:
    return Scope(experiment=resolved or experiment(), clients=use, now=NOW)


def kind(name: str) -> resource_kinds.Kind:
    (row,) = [row for row in resource_kinds.kinds() if row.kind == name]
    return row


def listed(*names: str, of: ResolvedNeuron | None = None) -> list[resource_kinds.Leftover]:
    """What there is of these kinds."""
    return [one for name in names for one in leftovers.find(kind(name), scope(of))]


def test_an_empty_account_is_clean() -> None:
    report = look(scope(), resource_kinds.kinds())
    assert report.clean
    assert (report.leftovers, report.unseen) == ((), ())


def test_every_kind_is_listed_with_what_removes_it() -> None:
    for make in (*made.EVERY_KIND.values(), made.log_groups):
        make()
    report = look(scope(), resource_kinds.kinds())
    assert report.unseen == ()
    assert set(made.EVERY_KIND) - {r.kind for r in report.unplanned} == set()
    groups = {r.id for r in report.unplanned if r.kind == "log group"}
    assert set(made.LOG_GROUPS) - groups == set()
    ids = [(r.kind, r.id) for r in report.leftovers]
    assert len(ids) == len(set(ids)), "two ways lead to some, by kind and by the index of tags"
    assert not [kind for kind, _ in ids if kind in ("s3", "sns", "ec2:natgateway")]
    removals = [r.remove for r in report.unplanned]
    assert [r for r in removals if not r.startswith(("aws ", "make destroy", "python -c"))] == []


def test_uploaded_files_are_priced_with_every_version() -> None:
    made.upload_folder()
    (folder,) = listed("upload folder")
    assert folder.id == f"s3://{made.ASSETS}/draftworth-qwen3-32b/"
    assert folder.name == "prompts and functions: 3 files, 5 versions"
    assert folder.usd_per_month == pytest.approx(
        4 * 1024 / 2**30 * (resource_kinds.monthly_usd("bucket_gib") or 0)
    )
    assert folder.created is not None
    s3 = boto3.client("s3", region_name=made.REGION)
    for key in ("prompts.json", "function.zip"):
        s3.delete_object(Bucket=made.ASSETS, Key=f"draftworth-qwen3-32b/{key}")
    assert listed("upload folder"), "old versions are left"


def test_other_uploads_and_similar_buckets_are_not_ours() -> None:
    s3 = boto3.client("s3", region_name=made.REGION)
    made.asset_bucket()
    for key in ("draftworth-qwen3-32b-x/a.json", "draftworth-qwen3-32b", "a.zip"):
        s3.put_object(Bucket=made.ASSETS, Key=key, Body=b"x")
    for name in ("cdk-mine", "cdk-hnb659fds-assets-123456789012-us-east-1"):
        made.asset_bucket(name)
        s3.put_object(Bucket=name, Key="draftworth-qwen3-32b/a.json", Body=b"x")
    assert listed("upload folder") == []


def test_schedules_are_ours_by_group_or_name() -> None:
    made.one("schedule group")
    for group in (made.STACK, "default"):
        made.schedule(f"{made.STACK}-benchmarkDeadline1-X", group)
        made.schedule("another", group)
    commands = (r.remove.partition("--group-name ")[2] for r in listed("schedule"))
    assert sorted(commands) == [
        f"default --name {made.STACK}-benchmarkDeadline1-X",
        f"{made.STACK} --name another",
        f"{made.STACK} --name {made.STACK}-benchmarkDeadline1-X",
    ]


def test_a_similarly_named_experiments_things_are_not_ours() -> None:
    for number in ("x-storageartifacts1", "storageartifacts2"):
        made.bucket(f"{made.STACK}-{number}-x", made.OTHERS_TAGS)
    made.role("draftworth-qwen3-32b-x-c-NodeRole1-X", made.OTHERS_TAGS)
    made.stack("draftworth-qwen3-32b-x", made.OTHERS_TAGS)
    made.bucket("somebody-elses", {})
    assert listed("bucket", "role", "stack") == []


def test_another_experiment_that_is_still_deployed_is_named() -> None:
    """After `make destroy` of the file that was not deployed; it is no leftover of this one."""
    made.stack("draftworth-qwen3-32b-x", made.OTHERS_TAGS)
    made.stack()
    made.stack("somebody-elses", {})
    (line,) = other_lines(scope())
    assert "another experiment is deployed in us-east-2: qwen3-32b-x (CREATE_COMPLETE)" in line
    assert list(other_lines(scope(use=refusing))) == []


def test_a_thing_without_tags_is_ours_by_name() -> None:
    made.bucket("draftworth-qwen3-32b-storageartifacts1-x", {})
    assert [r.kind for r in listed("bucket")] == ["bucket"]


def test_a_stacks_name_does_not_match_longer_ones() -> None:
    for name in ("", "-networkFlowLogGroup1-X", "-storagecheckpoints1-x"):
        assert of_stack("draftworth-x", f"draftworth-x{name}")
    assert of_stack("draftworth-x", "draftworth-x-CustomS3AutoDeleteObjects-X")
    for name in (
        "-network",
        "-network-storagebucket1-x",
        "-networks-storagebucket1-x",
        "-another-X",
    ):
        assert not of_stack("draftworth-x", f"draftworth-x{name}")
    assert not of_stack("draftworth-x", "draftworth-xy-networkFlowLogGroup1-X")


@pytest.mark.parametrize("holds", ["checkpoints", "results"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_bucket_stays_only_where_the_experiment_wants(holds: str, keep: bool) -> None:
    made.holding(holds, key="runs/a/run.json")
    stays = {"checkpoints": not keep, "results": not keep} | {holds: keep}
    kept_experiment = experiment(
        keep_checkpoints=stays["checkpoints"], keep_results=stays["results"]
    )
    assert [bool(bucket.kept) for bucket in listed("bucket", of=kept_experiment)] == [keep]


def test_a_bucket_that_the_experiment_names_stays() -> None:
    made.holding("checkpoints", key="a/b/main/_READY.json")
    (bucket,) = listed("bucket", of=experiment(keep_checkpoints=False, keep_results=False))
    assert not bucket.kept
    (named,) = listed("bucket", of=experiment(keep_checkpoints=False, checkpoints_bucket=bucket.id))
    assert named.kept == "aws.checkpoints_bucket names it"


def test_kept_results_come_with_commands_that_list_runs() -> None:
    names = [made.holding("results", key="runs/a/run.json", number=n) for n in (1, 2)]
    artifacts = made.holding("artifacts")
    unlabelled = f"{made.STACK}-storageresults3-x"
    made.bucket(unlabelled, key="runs/a/run.json")
    report = look(scope(), [kind("bucket")])
    assert {r.id for r in report.unplanned} == {artifacts, unlabelled}
    assert [(r.id, r.kept) for r in report.planned] == [
        (name, f"aws.keep_results is true; its runs: draftworth report s3://{name}")
        for name in names
    ]


def test_a_price_below_a_cent_is_not_nothing() -> None:
    for usd, text in ((0.0, "0.00"), (0.004, "below 0.01"), (0.01, "0.01"), (None, "?")):
        kept = resource_kinds.Leftover(
            kind="bucket", id="b", remove="aws y", usd_per_month=usd, kept="results"
        )
        lines = report_lines(Report(leftovers=(kept,), unseen=()), NOW)
        (row,) = (line for line in lines if line.startswith("  bucket"))
        assert row.split("?", 1)[1].removesuffix("b").strip() == text


def test_a_results_bucket_without_runs_is_reported_useless() -> None:
    made.holding("results", key="control/capacity.json")
    (bucket,) = listed("bucket")
    assert "holds no run: of no use once its stack is gone" in bucket.kept


def test_old_versions_are_counted_and_removed_too() -> None:
    name, s3 = made.holding("results", key="control/capacity.json"), made.client("s3")
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for key in ("control/capacity.json", "runs/a/run.json"):
        s3.put_object(Bucket=name, Key=key, Body=b"x" * 1024)
    s3.delete_object(Bucket=name, Key="runs/a/run.json")
    (bucket,) = listed("bucket")
    assert bucket.name == "3,072 bytes"
    python, option, program = shlex.split(bucket.remove)
    assert (python, option) == ("python", "-c")
    exec(program)  # noqa: S102 (what the command says is what a person runs)
    assert listed("bucket") == []


@pytest.mark.parametrize(
    ("storage_class", "usd"), [("STANDARD", "bucket_gib"), ("STANDARD_IA", "bucket_infrequent_gib")]
)
def test_results_cost_what_their_storage_class_does(storage_class: str, usd: str) -> None:
    made.holding("results", key="runs/a/run.json", StorageClass=storage_class)
    (bucket,) = listed("bucket")
    assert bucket.name == "1,024 bytes"
    assert bucket.usd_per_month == pytest.approx(
        1024 / 2**30 * (resource_kinds.monthly_usd(usd) or 0)
    )


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


def test_a_bought_block_stays_unless_ended_or_foreign() -> None:
    (block,) = leftovers.find(kind("capacity reservation"), reserved())
    assert "bought and paid in advance, ends 2026-11-21 15:00 UTC" in block.kept
    assert block.usd_per_month == 0
    for changes in ({"State": "expired"}, {"CapacityReservationId": "cr-0123456789abcdef1"}):
        assert not list(leftovers.find(kind("capacity reservation"), reserved(**changes)))


def test_an_on_demand_reservation_costs_what_instances_do() -> None:
    tags = [{"Key": "draftworth:experiment", "Value": "llama-3.1-8b-eagle3"}]
    reservation = reserved(ReservationType="default", Tags=tags)
    (one,) = leftovers.find(kind("capacity reservation"), reservation)
    block_price = experiment("llama-3.1-8b-eagle3").node_price.usd_per_hour
    assert not one.kept
    assert one.usd_per_month == pytest.approx(2 * block_price * 730)


def test_hourly_costs_are_reported_per_month() -> None:
    for kind_ in ("NAT gateway", "instance trn2.48xlarge", "volume"):
        made.one(kind_)
    usd = {r.kind: r.usd_per_month for r in listed("instance", "NAT gateway", "volume")}
    assert usd["instance trn2.48xlarge"] == pytest.approx(
        experiment().node_price.usd_per_hour * 730
    )
    (unpriced,) = listed("instance", of=experiment(price=None))
    assert unpriced.usd_per_month is None
    assert usd["NAT gateway"] == pytest.approx(0.045 * 730)
    assert usd["volume"] == pytest.approx(100 * 0.08)


def test_interfaces_that_lambda_holds_are_waited_for() -> None:
    lambdas = {"Status": "in-use", "Description": "AWS Lambda VPC ENI-draftworth"}
    interfaces = [
        {"NetworkInterfaceId": "eni-1", **lambdas},
        {"NetworkInterfaceId": "eni-2", "Status": "available"},
    ]
    # By tag first, then the network, of which there is none.
    answers = [
        Answer(method="describe_network_interfaces", response={"NetworkInterfaces": interfaces}),
        Answer(method="describe_vpcs", response={"Vpcs": []}),
    ]
    held, free = leftovers.find(kind("interface"), scope(use=StubbedClients({"ec2": answers})))
    assert held.remove == resource_kinds.LAMBDA_KEEPS
    assert free.remove.endswith("--network-interface-id eni-2")


@pytest.mark.parametrize(("state", "count"), [("available", 1), ("deleted", 0)])
def test_a_placement_group_is_listed_until_deleted(state: str, count: int) -> None:
    group = {"GroupName": "made-up", "State": state}
    answer = Answer(method="describe_placement_groups", response={"PlacementGroups": [group]})
    use = StubbedClients({"ec2": [answer]})
    assert len(list(leftovers.find(kind("placement group"), scope(use=use)))) == count


def test_an_instance_that_ends_is_no_leftover() -> None:
    made.one("instance trn2.48xlarge")
    ec2 = boto3.client("ec2", region_name="us-east-2")
    (reservation,) = ec2.describe_instances()["Reservations"]
    ec2.terminate_instances(InstanceIds=[reservation["Instances"][0]["InstanceId"]])
    assert listed("instance") == []


def test_an_account_with_refused_calls_is_not_clean() -> None:
    rows = resource_kinds.kinds()
    report = look(scope(use=refusing), rows)
    assert not report.clean
    assert [what for what, _ in report.unseen] == [
        *(row.looks_at for row in rows),
        "the index of tags",
    ]
    for _, reason in report.unseen:
        assert "AccessDenied" in reason
        assert "next: allow" in reason


def test_the_tag_index_replaces_a_refused_listing() -> None:
    made.one("topic")

    def refusing(service: str, region: str, /) -> Any:
        return RefusingClient() if service == "sns" else clients(service, region)

    report = look(scope(use=refusing), [kind("topic")])
    assert [(r.kind, r.id) for r in report.unplanned] == [
        ("sns", f"{made.STACK}-benchmarkTopic1-X")
    ]


def test_the_table_names_exactly_the_existing_functions() -> None:
    def named(key: str) -> set[str]:
        return {getattr(row, key) for row in resource_kinds.kinds()} - {""}

    assert named("ours") == set(resource_kinds.OURS)
    assert named("amend") == set(resource_kinds.AMEND)
    assert {name for row in resource_kinds.kinds() for name in row.filters} == set(
        resource_kinds.FILTERS
    )
    assert [usd for usd in named("usd") if resource_kinds.monthly_usd(usd) is None] == []


def test_an_arn_is_read_as_kind_and_id() -> None:
    start = "us-east-2:111122223333"
    for arn, parts in {
        f"arn:aws:ec2:{start}:subnet/subnet-1": ("ec2:subnet", "subnet-1"),
        f"arn:aws:lambda:{start}:function:f": ("lambda:function", "f"),
        f"arn:aws:logs:{start}:log-group:/aws/x": ("logs:log-group", "/aws/x"),
        "arn:aws:s3:::a-bucket": ("s3", "a-bucket"),
        f"arn:aws:sns:{start}:t": ("sns", "t"),
    }.items():
        assert leftovers.parse_arn(arn) == parts


def test_the_report_has_removals_kept_and_unseen() -> None:
    gone = resource_kinds.Leftover(
        kind="volume",
        id="vol-1",
        remove="aws x",
        created=NOW - timedelta(hours=3),
        usd_per_month=8.0,
    )
    kept = resource_kinds.Leftover(
        kind="bucket", id="b", remove="aws y", usd_per_month=None, kept="bought"
    )
    report = Report(leftovers=(gone, kept), unseen=(("roles", "AccessDenied"),))
    assert list(report_lines(report, NOW))[1:-1] == [
        "should be gone: 1",
        "  kind    age  USD per month  resource",
        "  volume  3 h           8.00  vol-1",
        "                              remove: aws x",
        "stays on purpose: 1",
        "  kind    age  USD per month  resource",
        "  bucket    ?              ?  b",
        "                              why: bought",
        "                              remove: aws y",
        "could not be looked at: 1",
        "  roles: AccessDenied",
        "",
    ]
    last = list(report_lines(report, NOW))[-1]
    assert last.startswith("about 8.00 USD per month, without 1 of unknown cost")


@pytest.mark.parametrize(("make", "code"), [(lambda: None, 0), (lambda: made.one("volume"), 1)])
def test_the_command_exits_with_1_for_unplanned_leftovers(
    make: Callable[[], object], code: int, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    make()
    monkeypatch.setattr(leftovers, "client", clients)
    output = ran("leftovers", QWEN, code=code)
    assert "qwen3-32b in account 123456789012, us-east-2" in output
    assert ("should be gone: nothing" in output) is (code == 0)


def test_without_credentials_the_command_is_not_clean(
    monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    without_credentials(monkeypatch)
    assert "aws sso login" in ran("leftovers", QWEN, code=1)


def test_a_duration_has_the_largest_unit_above_two() -> None:
    seconds = (0, 119, 2460, 3 * 3600, 47 * 3600, 12 * 86_400)
    texts = ["0 s", "119 s", "41 min", "3 h", "47 h", "12 days"]
    assert [duration_text(duration) for duration in seconds] == texts


def test_a_size_is_told_in_bytes_or_gib() -> None:
    assert (size_text(2000), size_text(3 * 1024**3 // 2)) == ("2,000 bytes", "1.50 GiB")
