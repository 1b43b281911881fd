"""The conversation on screen: a plain model of blocks, and one widget that draws the lines near the
view."""
