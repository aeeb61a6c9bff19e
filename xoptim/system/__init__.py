"""All that differs between Linux, macOS, Windows and a browser.

No other room asks which system it runs on.
"""
