"""Makes room in the model's context: what of a conversation stays, and the summary that replaces
the rest."""
