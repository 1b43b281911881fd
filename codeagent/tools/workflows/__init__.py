"""Workflow files of AWF, another program: recognising one, and making a recipe and a tool file of it."""
