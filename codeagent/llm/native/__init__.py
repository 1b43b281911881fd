"""Requests and streams without litellm."""
