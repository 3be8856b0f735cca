"""Makes prompt sets from a service's logs and from public sets, and prints no prompt's text."""
