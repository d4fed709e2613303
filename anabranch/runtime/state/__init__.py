"""Resources: variables with versions, random counters, channels, buffers."""
