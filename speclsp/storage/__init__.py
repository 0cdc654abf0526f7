"""Stores on disk that outlive a session, in the XDG cache and state folders."""
