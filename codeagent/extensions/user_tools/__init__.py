"""User-defined tools: a loader for each kind of file, and the machinery of functions and
templates."""
