"""Differences between Linux, macOS, Windows and browsers: no other package asks for the system."""
