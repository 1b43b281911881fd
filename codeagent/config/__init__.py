"""Settings: read at the edge, stop at `app`."""
