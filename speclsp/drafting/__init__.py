"""Drafters: they propose tokens, the target model decides."""
