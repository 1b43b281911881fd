"""The front end for other programs: they call our tools over MCP, with our gate in front of every call."""
