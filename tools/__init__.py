"""The command line of warp-rtc."""
