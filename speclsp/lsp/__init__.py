"""The language server: transports, JSON-RPC, LSP's methods, and one client's session."""
