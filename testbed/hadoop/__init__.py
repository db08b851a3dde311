"""HDFS on this machine: one name node or a highly available pair, from the jars of a Maven cache."""
