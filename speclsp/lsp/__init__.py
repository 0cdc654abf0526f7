"""The language server: LSP's methods, and one client's session."""
