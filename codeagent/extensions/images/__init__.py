"""The sandbox image that a repository describes: read, agreed to, and built without trust."""
