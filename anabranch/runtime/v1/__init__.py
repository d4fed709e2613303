"""Steps of graphs with control flow of version 1."""
