"""Tool calls written as text, for models or providers without native ones."""
