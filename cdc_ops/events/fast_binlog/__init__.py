"""Binlogs at memory speed: kernels decode what is plain, the reference decoder of `cdc_ops.events.binlog` everything else."""
