"""What users are told of speed and drafting: sums over a session, speed-ups, lines, advice."""
