"""Finding the one place an edit means, and carrying the edit over to it."""
