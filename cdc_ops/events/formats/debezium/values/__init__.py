"""Texts of Debezium's records -> stored values."""
