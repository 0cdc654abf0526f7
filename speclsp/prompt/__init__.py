"""Fill-in-the-middle prompts: special tokens, layouts, windows.  Text in, token ids out."""
