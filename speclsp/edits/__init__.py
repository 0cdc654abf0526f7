"""Next edits: prompts, what answers mean, and which edits are withheld.  Pure functions."""
