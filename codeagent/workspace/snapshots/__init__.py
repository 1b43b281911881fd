"""Snapshots of a folder: how it is scanned, stored, restored and pruned."""
