"""Engines: the real llama.cpp behind ``engine/llama``, and a scripted one for fast tests."""
