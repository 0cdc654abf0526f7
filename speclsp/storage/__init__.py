"""What is kept on disk between sessions, under the XDG cache and state folders."""
