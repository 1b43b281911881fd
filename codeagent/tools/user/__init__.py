"""User-defined tools: one loader for each kind of file, and what their functions and templates need."""
