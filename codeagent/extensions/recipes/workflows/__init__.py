"""Workflow files of AWF, another program, and their conversion into a recipe and a tool file."""
