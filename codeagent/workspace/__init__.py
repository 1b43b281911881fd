"""The user's files: confined opens, atomic writes, ignore rules, checkpoints, commits and
skills."""
