"""The front end for other programs, which call codeagent's tools over MCP; every call passes policy
and approval."""
