"""Files on disk, below everything that touches them: confined opens, atomic writes, private files and locks."""
