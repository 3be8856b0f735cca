"""Servers that do not get healthy: vLLM's parent gives them up, or they are paid for too long."""

import pytest

from draftworth.records.servers import SelfTest, server_state_key
from tests.lambdas.capacity_controller.conftest import RUN_EVENT, Account, s3_event
from tests.lambdas.capacity_controller.fakes import RESULTS
from tests.lambdas.capacity_controller.plans import (
    HOUR,
    JOB,
    MINUTE,
    NOW,
    OTHER_JOB,
    SERVERS,
    VARIANTS,
    make_plan,
    make_server,
    make_server_given_up,
)
from tests.lambdas.capacity_controller.scenarios import Scenario

SERVER_EVENT = s3_event(RESULTS, server_state_key(SERVERS[0]))
NODE = ("i-0", "InService")


def starting(account: Account, *, nodes: int = 1) -> None:
    """Deploy and start the nodes and the Job, which waits, because no server is healthy."""
    account.start(make_plan(nodes=nodes, budget_usd=1e6, deadline_minutes=1000))
    account.nodes_follow()
    account.begin_run(JOB)
    for variant in VARIANTS:
        account.say(make_server(variant, phase="starting"))
    account.heartbeat()
    account.mail()


def pass_minutes(account: Account, minutes: int) -> None:
    for step in (*[10] * (minutes // 10), *[2] * (minutes % 10 // 2)):
        account.heartbeat(after=step * MINUTE)


def test_a_given_up_servers_mail_has_its_log(
    account: Account,
) -> None:
    starting(account)
    pass_minutes(account, 12)
    account.say(make_server_given_up(since_unix_s=NOW - 1))
    account.handle(SERVER_EVENT)
    assert account.desired == 1, "it was given up before the deploy"
    account.say(make_server_given_up(since_unix_s=account.now))
    account.handle(SERVER_EVENT)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 0 nodes, server gave up"
    for words in ("baseline", "3 starts", "no devices", "exit code 70", "artifacts"):
        assert words in mail["text"]
    assert (account.desired, account.paid_seconds) == (0, 12 * MINUTE)
    account.say(make_server(phase="starting", since_unix_s=account.now + 1, pod="another"))
    account.heartbeat(after=2 * MINUTE)
    assert account.outcome == (0, "server_gave_up"), "another pod does not bring the nodes back"
    account.end_run(status="failed", reason="the server of baseline was given up")
    account.handle(RUN_EVENT)
    assert (account.mail(), account.reason) == ([], "server_gave_up"), "it is told once"


def test_another_job_starts_despite_an_earlier_failure(account: Account) -> None:
    starting(account)
    account.say(make_server_given_up(since_unix_s=account.now))
    account.handle(SERVER_EVENT)
    account.now += HOUR
    account.update(make_plan(job_name=OTHER_JOB))
    assert account.outcome == (1, "ready")
    account.update(make_plan())
    assert account.outcome == (0, "server_gave_up"), "rolled back"


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_hanging_start_ends_nodes_after_its_allowance(account: Account, nodes: int) -> None:
    starting(account, nodes=nodes)
    pass_minutes(account, 128)
    assert (account.desired, account.mail()) == (nodes, [])
    pass_minutes(account, 2)
    assert account.outcome == (0, "no_server_ready")
    assert account.paid_seconds == 130 * MINUTE * nodes
    (mail,) = account.mail()
    assert f"{130 * nodes} node minutes" in mail["text"]
    assert "make logs" in mail["text"]
    account.instances = []
    pass_minutes(account, 60)
    assert (account.desired, account.mail()) == (0, []), "its nodes that go are no loss"


@pytest.mark.parametrize("nodes", [1, 2])
def test_nodes_without_self_test_end_after_30_minutes(account: Account, nodes: int) -> None:
    account.start(make_plan(nodes=nodes, budget_usd=1e6))
    account.nodes_follow()
    account.heartbeat()
    account.say(make_server(phase="given_up", reason="x", since_unix_s=NOW - 1))
    account.say(make_server(VARIANTS[1], phase="testing", since_unix_s=account.now))
    account.mail()
    pass_minutes(account, 28)
    assert account.desired == nodes
    # A server has reported and the measuring Job has not: this is mailed, and no node is ended.
    assert [mail["subject"] for mail in account.mail()] == [
        "draftworth qwen3-32b: measuring Job is silent"
    ]
    pass_minutes(account, 2)
    assert account.outcome == (0, "self_test_silent")
    (mail,) = account.mail()
    assert f"{30 * nodes} node minutes" in mail["text"]
    assert "no container starts" in mail["text"]


def test_a_pod_that_copies_graphs_keeps_its_nodes(account: Account) -> None:
    account.start(make_plan(nodes=1, budget_usd=1e6))
    account.nodes_follow()
    account.heartbeat()
    test = SelfTest(seconds=5.0)
    account.say(make_server(phase="testing", self_test=test, since_unix_s=account.now))
    pass_minutes(account, 30)
    assert account.desired == 1


@pytest.mark.parametrize("compiles", [True, False])
def test_another_job_leaves_servers_that_compile_their_time(
    account: Account, compiles: bool
) -> None:
    """Another Job's deploy changes no server's pod, so only servers on new nodes are tested."""
    starting(account)
    pass_minutes(account, 20)
    if not compiles:
        account.instances = []
        account.heartbeat()
    account.update(make_plan(job_name=OTHER_JOB, budget_usd=1e6, deadline_minutes=1000))
    account.report(job=OTHER_JOB)
    account.heartbeat()
    account.nodes_follow()
    account.begin_run(OTHER_JOB)
    pass_minutes(account, 40)
    assert account.outcome == ((1, "ready") if compiles else (0, "self_test_silent"))


def test_results_prove_a_server_that_cannot_report(account: Account) -> None:
    """Only new results prove it: an older one says nothing about the current server."""
    begun = ("nodes follow", "begin", "measure")
    scenario = Scenario(aws=account)
    for operation in ("stage both", "Create poor", "heartbeat", *begun):
        scenario.do(operation)
    waits = []
    for operation in ("a minute later", "measure", "heartbeat", "a minute later", "heartbeat"):
        scenario.do(operation)
        waits.append(account.deployment.without_server_seconds)
    assert waits[2:] == [0.0, 0.0, 2 * MINUTE], "node seconds, of two nodes"


def test_a_server_silent_again_gets_its_allowance_again(account: Account) -> None:
    starting(account)
    pass_minutes(account, 100)
    account.say(make_server(since_unix_s=account.now))
    pass_minutes(account, 100)
    account.say(make_server(phase="starting", start=2, since_unix_s=account.now))
    pass_minutes(account, 128)
    assert account.desired == 1
    pass_minutes(account, 2)
    assert account.outcome == (0, "no_server_ready")


@pytest.mark.parametrize("healthy", [True, False])
def test_each_node_has_its_whole_start_allowance(account: Account, healthy: bool) -> None:
    """The state of a server on a lost node does not count, because nothing can update it."""
    starting(account)
    if healthy:
        account.say(make_server(since_unix_s=account.now))
    pass_minutes(account, 100)
    account.instances = []
    account.heartbeat(after=2 * MINUTE)
    account.heartbeat(after=HOUR)  # waiting for capacity
    account.instances = [NODE]
    pass_minutes(account, 128)
    assert account.desired == 1
    pass_minutes(account, 4)
    assert account.outcome == (0, "no_server_ready")


def test_nodes_after_a_stop_have_the_whole_allowance(account: Account) -> None:
    starting(account)
    pass_minutes(account, 100)
    account.stop()
    account.heartbeat()
    account.instances = []
    account.heartbeat(after=2 * MINUTE)
    account.resume()
    account.heartbeat(after=10 * MINUTE)
    account.instances = [NODE]
    pass_minutes(account, 100)
    assert account.desired == 1


def test_states_that_cannot_be_read_end_nothing(account: Account) -> None:
    starting(account)
    pass_minutes(account, 128)
    account.fail("GetObject", *[None] * 6, *["SlowDown"] * 2)
    account.heartbeat(after=2 * MINUTE)
    assert account.desired == 1
    account.heartbeat(after=2 * MINUTE)
    assert account.desired == 0


# Servers that start and stop while a run lasts.


def swap(account: Account) -> None:
    """Stop both servers on purpose, and start both variants in the other slots."""
    for variant in VARIANTS:
        account.say(make_server(variant, phase="ended", exit_code=0, since_unix_s=account.now))
    for variant, server in zip(VARIANTS, (SERVERS[1], SERVERS[3]), strict=True):
        account.say(
            make_server(variant, server=server, phase="starting", since_unix_s=account.now + 1)
        )


def test_servers_that_were_stopped_on_purpose_end_nothing(account: Account) -> None:
    starting(account)
    account.say(make_server(since_unix_s=account.now))
    pass_minutes(account, 60)
    swap(account)
    account.handle(SERVER_EVENT)
    pass_minutes(account, 20)
    assert (account.desired, account.mail()) == (1, [])
    account.say(make_server(server=SERVERS[1], since_unix_s=account.now))
    pass_minutes(account, 60)
    assert (account.desired, account.mail()) == (1, [])


def test_a_run_after_a_second_failure_is_mailed(
    account: Account,
) -> None:
    """The nodes end because of the failure first; the complete run is mailed nevertheless."""
    starting(account)
    swap(account)
    account.say(make_server_given_up(VARIANTS[1], server=SERVERS[3], since_unix_s=account.now + 2))
    account.handle(SERVER_EVENT)
    assert account.outcome == (0, "server_gave_up")
    account.mail()
    account.end_run()
    account.handle(RUN_EVENT)
    (mail,) = account.mail()
    assert "complete" in mail["subject"]
    assert account.outcome == (0, "complete")


def test_a_killed_server_does_not_stay_healthy(
    account: Account,
) -> None:
    """The killed server could not report its end, and that in the other slot never gets ready."""
    starting(account)
    account.say(make_server(since_unix_s=account.now))
    pass_minutes(account, 10)
    account.say(make_server(server=SERVERS[1], phase="starting", since_unix_s=account.now))
    pass_minutes(account, 128)
    assert account.desired == 1
    pass_minutes(account, 4)
    assert account.outcome == (0, "no_server_ready")
