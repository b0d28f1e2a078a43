"""Steps of the ladder, each knowing nothing of the others."""
