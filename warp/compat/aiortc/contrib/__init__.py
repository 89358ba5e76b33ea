"""Helpers around tracks, as aiortc's `contrib` has them: `media` plays, records and relays.

MediaPlayer.audio ─▶ addTrack        "track" ─▶ MediaRelay ─┬▶ MediaRecorder
                                                           ├▶ MediaBlackhole
                                                           └▶ addTrack
"""
