"""Write the published schemas: ``python -m alloc.documents docs/schema``."""

import sys

from alloc.documents.schema import write_schemas

if __name__ == "__main__":
    for path in write_schemas(sys.argv[1] if len(sys.argv) > 1 else "docs/schema"):
        print(path)
