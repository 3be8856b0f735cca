"""Makes prompt sets from a service's logs and from public sets; no text of a prompt is printed."""
