"""What the stack configures its EKS add-ons with, beyond their defaults."""

from collections.abc import Mapping
from typing import Any

# Container Insights with enhanced and accelerator metrics, in the namespace ContainerInsights.
_INSIGHTS = {"enhanced_container_insights": True, "accelerated_compute_metrics": True}
# {add-on: its settings, with the names of the values of its Helm chart}.
ADD_ON_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "vpc-cni": {"enableNetworkPolicy": "true"},
    # By default the add-on's operator instruments every Python pod that starts: servers and the
    # measuring Job would trace each request, and the figures would be those of instrumented
    # programs. Two keys turn it off: one for the collection, one for the operator.
    "amazon-cloudwatch-observability": {
        "agent": {"config": {"logs": {"metrics_collected": {"kubernetes": _INSIGHTS}}}},
        "applicationSignals": {"enabled": False},
        "manager": {"applicationSignals": {"autoMonitor": {"monitorAllServices": False}}},
    },
}
