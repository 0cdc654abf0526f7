"""Speculative decoding on token ids: prefill, draft, verify, accept, roll back."""
