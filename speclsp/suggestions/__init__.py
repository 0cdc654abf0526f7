"""What earlier answers say about the next request: pure, without clock and threads."""
