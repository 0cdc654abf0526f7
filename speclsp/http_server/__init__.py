"""llama-server's and OpenAI's completion endpoints on the engine that editors share."""
