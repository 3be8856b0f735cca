"""What `draftworth leftovers` looks for: each finder one kind of thing, by tag and by name."""
