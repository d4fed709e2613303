"""From a fetch to the operations that it needs, in the order of their effects, with the state each of them sees."""
