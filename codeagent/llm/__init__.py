"""Models behind the Model port."""
