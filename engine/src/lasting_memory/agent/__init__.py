"""What a graph is built of: prompt blocks, skills, tools, limits, the model."""
