"""Facts as numbers and spans: Prometheus metrics and OpenTelemetry, as listeners and as a reader of the store."""
