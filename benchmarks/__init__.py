"""The measured figures of PERFORMANCE, each beside its floor: `make bench`."""
