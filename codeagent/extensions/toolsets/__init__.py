"""Sets of further tools, which the model lists and turns on."""
