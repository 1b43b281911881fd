"""More ways to change and list files: several at once, patches, JSON, wide listings."""
