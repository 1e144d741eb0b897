"""Write the published schemas: ``python -m alloc.documents docs/schema``."""

import sys

from alloc.documents.schema import write_schemas
from alloc.errors import AllocError

if __name__ == "__main__":
    try:
        paths = write_schemas(sys.argv[1] if len(sys.argv) > 1 else "docs/schema")
    except AllocError as error:
        sys.exit(str(error))
    for path in paths:
        print(path)
