"""The Spark session: settings, jars, the JVM's log."""
