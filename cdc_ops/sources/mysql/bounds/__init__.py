"""The facts for a safe bound: who may write at a server or a cluster, and since when."""
