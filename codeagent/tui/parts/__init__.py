"""What the screen is made of: cards, lists, lines, panes, each written once."""
