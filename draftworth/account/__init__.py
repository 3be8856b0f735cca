"""Commands that look into the AWS account: before a deploy, between runs, after a destroy."""

from __future__ import annotations
