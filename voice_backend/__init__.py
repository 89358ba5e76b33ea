"""What answers the call: models that listen and speak, and the loop that keeps every frame on time."""
