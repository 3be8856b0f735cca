"""Where the programs of a deployment tell each other how it goes.

Apart from `capacity`, because the serving pods' programs travel in a ConfigMap, where every file
counts twice.
"""

from __future__ import annotations

# A folder of the results bucket, beside the runs.
CONTROL_PREFIX = "control/"
