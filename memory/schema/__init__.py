"""The version of the store's layout, which a server checks when it starts.

Most changes need no step here: code reads old values as they are, and writes them in the new form. A step changes values that
must change in place. `migrate` runs the missing steps, and stops a server that is older than the store.
"""

from memory.schema.migration import SCHEMA, SchemaError, migrate

__all__ = ["SCHEMA", "SchemaError", "migrate"]
