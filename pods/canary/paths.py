"""Tries on a CPU node the two ways that the measuring Job first goes beside a paid node.

They are the way to a server and, if the run starts and stops servers, the way to the Kubernetes
API. The pod has the measuring Job's service account and the labels by which the network policies
know that Job; a listener (`pods/canary/listener.py`) stands in for a server. Each report replaces
the previous one in the results bucket (`draftworth/records/deployment.py`).

Exit codes: 0 both ways are open, 1 a try failed; the report says which.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import boto3

from draftworth.errors import DraftworthError
from draftworth.records.deployment import PATHS
from pods.canary.attempts import RETRIES, Attempts, add_options, exit_code
from pods.log import end_at_sigterm
from pods.measuring.kubernetes_servers import KubernetesApi

# The network policies' agent applies them some seconds after a pod's start, and until then
# everything is open (docs/security.md): a try in these seconds would show nothing.
SETTLE_SECONDS = 30
# The listener's pod may pull its image for some minutes.
PATIENCE_SECONDS = 300
_TIMEOUT_SECONDS = 10
_NEXT = (
    "next: kubectl get pods,networkpolicies, whether the listener's pod runs, and the log of the "
    "network policy agent (aws-node) on the nodes of both pods; if it denies what the policies "
    "allow, name another version of vpc-cni in aws.pins.add_ons, then deploy again with a raised "
    "`rerun`"
)


@dataclass(frozen=True, kw_only=True)
class PathsCanary:
    """Tries both ways once and reports the result.

    environment: the pod's environment variables, which have the address of the Kubernetes API.
    """

    arguments: argparse.Namespace
    environment: Mapping[str, str]
    attempts: Attempts

    def run(self) -> bool:
        """Try both ways and write a report; return whether they are open.

        It raises boto3's error if the report cannot be written.
        """
        time.sleep(self.arguments.settle_seconds)
        try:
            self.attempts.say(self.attempts.patiently(self._reach_listener))
            if self.arguments.deployment:
                self.attempts.say(self._reach_kubernetes())
        except DraftworthError as error:
            self.attempts.say(f"failed: {error}")
            self.attempts.report(ok=False, text=f"{error}; {_NEXT}")
            return False
        self.attempts.report(ok=True, text="what the measuring Job must reach was reached")
        return True

    def _reach_listener(self) -> str:
        url = self.arguments.listener
        address = urlsplit(url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/")
            status = connection.getresponse().status
        except (OSError, HTTPException) as error:
            raise DraftworthError(
                f"GET {url}: no answer: {error or type(error).__name__}; the measuring Job would "
                "not reach a server either, though the network policies `load-generator` and "
                "`serving` allow it"
            ) from error
        finally:
            connection.close()
        return f"GET {url}: HTTP {status}, as the measuring Job would reach a server"

    def _reach_kubernetes(self) -> str:
        # The client itself tries again, for up to three minutes.
        name = self.arguments.deployment
        KubernetesApi.of_this_pod(self.environment).try_scale(name)
        return f"Kubernetes takes patches of the scale of {name}; nothing was changed"


def main(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Try both ways and return the exit code."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    client = boto3.client("s3", config=RETRIES)
    attempts = Attempts(client=client, arguments=arguments, name=PATHS)
    canary = PathsCanary(arguments=arguments, environment=environment, attempts=attempts)
    return exit_code(canary.run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.canary.paths", description=__doc__)
    parser.add_argument("--listener", required=True, help="the URL of the listener")
    parser.add_argument(
        "--deployment", help="a server that the measuring Job scales; left out: it scales none"
    )
    parser.add_argument(
        "--settle-seconds",
        type=float,
        default=SETTLE_SECONDS,
        help="the wait until the network policies hold (%(default)s)",
    )
    add_options(parser, patience_seconds=PATIENCE_SECONDS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
