"""The rooms that hold the real parts: Java, jars, brokers, Spark, JupyterLab."""
