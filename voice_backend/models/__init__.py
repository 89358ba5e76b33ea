"""The voices: echo, scripted, and the embedded one that needs no GPU."""
