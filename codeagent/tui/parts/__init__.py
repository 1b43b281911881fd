"""The building blocks of the screen: cards, lists, lines, panes."""
