"""Snapshots of a folder: how it is walked, what is kept of it, and how it is brought back."""
