"""Statistics files: how often which token followed which n-gram, counted, kept and looked up."""
