"""Models by name: presets for each size of memory, and their download from Hugging Face."""
