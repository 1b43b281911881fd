"""Extensions: one feature each, which the kernel does not know."""
