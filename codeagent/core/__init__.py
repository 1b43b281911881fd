"""The vocabulary: data and Protocols that all other packages use; no I/O."""
