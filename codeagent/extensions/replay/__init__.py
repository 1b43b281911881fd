"""A recorded session again: on the screen, as a picture, and with another model."""
