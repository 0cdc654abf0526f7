"""The seam between a window and its engine: the completer, and the data that crosses it."""
