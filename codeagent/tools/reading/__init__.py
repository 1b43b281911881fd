"""Which commands only read: a strict reading of the line, and an allow-list of flags for each program."""
