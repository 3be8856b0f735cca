"""The Service of the winner that goes on serving, for the applications that use it."""

from __future__ import annotations

from collections.abc import Mapping

import cdk8s

from charts import k8s
from charts.pods import metadata
from charts.vllm_pod import service_port
from draftworth.measuring.job import WINNER_SERVICE

# On a pod of any namespace: it may ask the servers.
CLIENT_LABEL: Mapping[str, str] = {"draftworth/client": "true"}


def add_winner_service(chart: cdk8s.Chart) -> None:
    """It selects nothing until the measuring Job says which pods: while the run lasts, whoever
    asked a server that is measured would be in its figures.

    A selector given here would be put back by each deploy, also while a winner serves.
    """
    k8s.KubeService(
        chart,
        "service-winner",
        metadata=metadata(WINNER_SERVICE),
        spec=k8s.ServiceSpec(type="ClusterIP", ports=[service_port()]),
    )
