"""XML with line numbers, and without the bombs that XML allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from alloc.instances.topologies.place import Place

# Real files have some 30: caches and cores in packages, bridges under bridges.
_MAX_DEPTH = 200


@dataclass
class Element:
    """An element of an XML document.

    Parameters
    ----------
    tag
        Its name.
    attributes
        Its attributes.
    where
        File and line of its start.
    below
        The elements in it, in order.
    text
        The text in it, without that of the elements in it.
    """

    tag: str
    attributes: dict[str, str]
    where: Place
    below: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str:
        """Return an attribute, or nothing if it has no such attribute."""
        return self.attributes.get(name, "")

    def all(self, tag: str) -> Iterator[Element]:
        """Yield the elements directly in it that have a name."""
        return (element for element in self.below if element.tag == tag)


def parse_xml(data: bytes, file: str) -> Element:
    """Return the root of an XML document.

    Entities are refused: a few lines of them can mean gigabytes. External documents are not read.

    Parameters
    ----------
    data
        The document.
    file
        Name of the file, for messages.

    Raises
    ------
    InstanceError
        If the document is not well-formed, defines entities, or is nested too deep; with the line.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.sax import parseString

    handler = _Builder(file)
    try:
        # hwloc names its document type, which is external; that it is not fetched is the default
        # of xml.sax, and entities of any kind stay forbidden.
        parseString(data, handler, forbid_external=False)
    except SAXParseException as error:
        raise Place(file, error.getLineNumber()).error(
            f"is not a whole XML document ({error.getMessage()}); copy it again from the machine."
        ) from None
    except DefusedXmlException:
        raise handler.here().error(
            "defines entities, which no topology needs and which can blow up; remove the "
            "<!ENTITY> lines."
        ) from None
    except (SAXException, ValueError, LookupError) as error:
        raise handler.here().error(
            f"cannot be read as XML ({error}); write it again in UTF-8."
        ) from None
    return handler.root


class _Builder(ContentHandler):
    """Builds the tree of elements."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file
        self._locator: Locator | None = None
        self._open: list[Element] = []
        self._text: list[str] = []
        self.root = Element("", {}, Place(file))

    def here(self) -> Place:
        line = self._locator.getLineNumber() if self._locator is not None else None
        return Place(self._file, line)

    def setDocumentLocator(self, locator: Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise self.here().error(
                f"elements are nested more than {_MAX_DEPTH} deep; that is not a host."
            )
        element = Element(name, dict(attrs.items()), self.here())
        if self._open:
            self._open[-1].below.append(element)
        else:
            self.root = element
        self._open.append(element)

    def characters(self, content: str) -> None:
        if not content.isspace() and self._open:
            self._open[-1].text += content

    def endElement(self, name: str) -> None:
        self._open.pop()
