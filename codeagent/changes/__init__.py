"""Changes of files, whoever makes them: diffs, hunks, what rules match, landing and undoing."""
