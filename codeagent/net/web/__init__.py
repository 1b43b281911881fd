"""Requests to hosts on the web, for tools: which are allowed, what they carry, what comes back."""
