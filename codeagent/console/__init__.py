"""What is printed on a terminal without a screen: colours, tables and Markdown."""
