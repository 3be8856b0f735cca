"""Prompt sets from the logs of a service and from public sets; nothing of a prompt is printed."""
