"""The only importer of llama_cpp: its low-level API behind real types."""
