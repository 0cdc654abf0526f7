"""Loads and runs the models, by llama.cpp (``llama``) or on other machines (``http``)."""
