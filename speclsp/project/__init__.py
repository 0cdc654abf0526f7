"""The project on disk: scanning, ignore rules, secrets, watching, the index of its tokens."""
