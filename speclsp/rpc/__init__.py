"""JSON-RPC 2.0: framing, one connection, and the threads of standard input and output."""
