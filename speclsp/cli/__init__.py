"""The command line: composition root of everything below."""
