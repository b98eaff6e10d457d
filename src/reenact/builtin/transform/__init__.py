"""The operations of json_transform."""
