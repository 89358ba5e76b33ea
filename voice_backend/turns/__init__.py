"""Who has the floor: end of turn, barge-in, back-channels."""
