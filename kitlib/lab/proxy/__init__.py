"""The chaos proxy: it stands between any Kafka client and any cluster, and loses, delays, doubles and cuts by rule."""
