"""All that differs between Linux, macOS, Windows and a browser; no other room asks which system it runs on."""
