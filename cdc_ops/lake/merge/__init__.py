"""The statement that applies an operation, and its inputs."""
