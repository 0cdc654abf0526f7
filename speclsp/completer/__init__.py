"""The in-process completer: one engine thread behind the completer seam."""
