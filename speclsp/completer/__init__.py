"""The completer: one engine thread, and what its requests are made from."""
