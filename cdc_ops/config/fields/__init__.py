"""The fields of a pipeline file: types, rules, defaults, help texts."""
