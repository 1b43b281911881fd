"""The vocabulary: data and Protocols that every other package speaks; no I/O."""
