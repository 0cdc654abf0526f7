"""Chunks of other files for the prompt: what to show, and in which order.  Text in, text out."""
