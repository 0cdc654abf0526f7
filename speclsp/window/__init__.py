"""The window's side of the completer seam: masked documents, ledger of suggestions, debounce."""
