"""Where commands run: a container that sees only the workspace."""
