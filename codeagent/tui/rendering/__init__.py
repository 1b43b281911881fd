"""From text, diffs and terminal output to lines that can be drawn, selected and copied."""
