"""Makes prompt files from a service's logs or public data sets; no text of a prompt is printed."""
