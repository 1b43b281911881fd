"""Files in which users and projects define things: folders of them, their keys, and what is
wrong."""
