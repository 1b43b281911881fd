"""Tools beside the six: each needs a port that not every set-up has."""
