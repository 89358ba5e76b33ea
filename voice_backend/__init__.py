"""What answers the call: models that listen and speak, and the loop that keeps frames on time."""
