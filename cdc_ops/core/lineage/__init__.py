"""What a run read and wrote, as datasets with exact column lineage: from the plan and its results, never from Spark's plan. Pure."""
