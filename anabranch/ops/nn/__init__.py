"""Neural networks: activations, softmax, normalisation, embeddings, losses, samplers, recurrent blocks."""
