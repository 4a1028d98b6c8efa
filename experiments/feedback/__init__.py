"""Credit of turns against the interaction order of what decides, and against delayed rewards."""
