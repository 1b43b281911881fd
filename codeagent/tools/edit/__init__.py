"""Finds the one place that an edit means, and applies the edit there."""
