"""The JVM of Spark: its options, its archive of classes, its log."""
