"""Fill-in-the-middle prompts: special tokens, layouts, excerpts.  Text in, token ids out."""
