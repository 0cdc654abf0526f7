"""Engines on other machines, asked over HTTP; the only importer of httpx2."""
