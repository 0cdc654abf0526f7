"""Key-like strings in texts, and what takes their place.  Text in, text out."""
