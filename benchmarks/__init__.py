"""Benchmarks: run by hand, they print tables; tests never assert their times."""
