"""All that differs between Linux, macOS, Windows and a browser.

No other package asks which system it runs on.
"""
