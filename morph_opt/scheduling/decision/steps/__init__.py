"""Steps of the ladder, independent of each other."""
