"""Where a voice meets sockets, processes and clocks."""
