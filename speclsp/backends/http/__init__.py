"""Engines on other machines, asked over HTTP."""
