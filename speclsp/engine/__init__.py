"""Loads and runs the models; ``engine/llama`` is the only importer of llama_cpp."""
