"""TensorFlow's tools for graphs in files, as functions: freezing, stripping, preparing for inference, inspecting."""
