"""Statistics files: counts of which token followed which n-gram, with look-up by n-gram."""
