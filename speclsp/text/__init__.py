"""Text rules while and after decoding: when to stop, what to trim.  Text only."""
