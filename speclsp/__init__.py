"""speclsp: a language server that completes code with speculative fill-in-the-middle."""

__version__ = "0.1.0"
