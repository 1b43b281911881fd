"""Tools that people write in files: one loader for each kind of file."""
