"""The language server: the only importer of pygls and lsprotocol, one file per LSP method."""
